//! Frames being filled, without the task that seals them.

use super::commit::Shared;
use super::*;
use crate::record::{Group, Receiver, Record, Sink};

fn shared() -> Shared {
    Shared::new(&config::Intake::default())
}

/// Fills in records that come to 4 KiB each.
fn expanding(num_records: usize) -> impl Fn(&mut Filling) -> Result<((), Option<Ticket>), ()> {
    move |filling| {
        filling.group(&Group {
            service: "s".into(),
            environment: "".into(),
            scope_name: "".into(),
            scope_version: "".into(),
            resource: vec![],
            receiver: Receiver::Json,
            received_at: 0,
        });
        for _ in 0..num_records {
            filling.push(&Record {
                message: "m".repeat(4 << 10).into(),
                ..Record::default()
            });
        }
        Ok(((), None))
    }
}

#[test]
fn what_records_grow_to_counts_against_the_budget() {
    let (shared, budget) = (shared(), Budget::new(1 << 20));
    let first = shared.add_to_open(budget.take(100).unwrap(), expanding(100));
    assert!(first.is_ok());
    assert!(budget.used() > 100 * (4 << 10), "{}", budget.used());
    let refused = shared.add_to_open(budget.take(100).unwrap(), expanding(200));
    assert!(matches!(refused, Err(AddError::Intake(Error::Busy { .. }))));
    let refused = shared.add_own(budget.take(100).unwrap(), expanding(200));
    assert!(matches!(refused, Err(AddError::Intake(Error::Busy { .. }))));
    // Nothing of the refused ones stays, neither bytes nor records.
    assert!(budget.used() < 101 * (5 << 10), "{}", budget.used());
    let second = shared.add_to_open(budget.take(100).unwrap(), expanding(50));
    assert_eq!(second.map(|added| added.num_records).ok(), Some(50));
}

#[test]
fn a_request_alone_may_grow_beyond_the_budget() {
    let (shared, budget) = (shared(), Budget::new(1 << 20));
    let large = shared.add_own(budget.take(100 << 10).unwrap(), expanding(300));
    assert_eq!(large.map(|added| added.num_records).ok(), Some(300));
    assert!(budget.used() > 1 << 20);
    assert!(budget.take(1).is_err());
}

#[test]
fn records_are_charged_while_they_come_and_refused_before_the_memory_is_taken() {
    let (shared, budget) = (shared(), Budget::new(1 << 20));
    let other = budget.take(300 << 10).unwrap();
    let mut refused_at = None;
    let walk = |filling: &mut Filling| {
        for held in (0..2 << 20).step_by(64 << 10) {
            if let Err(no_room) = filling.hold(held) {
                refused_at = Some((held, no_room.used, no_room.cap));
                return Err(());
            }
            assert_eq!(budget.used(), (300 << 10) + held.max(100 << 10));
        }
        Ok(((), None))
    };
    let refused = shared.add_own(budget.take(100 << 10).unwrap(), walk);
    assert!(matches!(refused, Err(AddError::Walk(()))));
    // The rest of the budget is 724 KiB, 11 steps and a bit.
    assert_eq!(refused_at, Some((768 << 10, 1004 << 10, 1 << 20)));
    assert_eq!(budget.used(), 300 << 10);
    drop(other);
}
