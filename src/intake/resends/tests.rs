use super::*;
use crate::config::Period;

fn config() -> config::Intake {
    config::Intake::default()
}

fn name(number: u8) -> Digest {
    digest(&[number], 0)
}

const SOON: Duration = Duration::from_secs(5);

async fn is_new(resends: &Resends, number: u8) -> Option<Ticket> {
    match resends.begin(name(number), SOON).await.unwrap() {
        Seen::New(ticket) => Some(ticket),
        Seen::Before(_) => None,
    }
}

#[tokio::test]
async fn a_request_is_taken_once_and_another_is_another() {
    let dir = tempfile::tempdir().unwrap();
    let resends = Resends::open(dir.path(), &config());
    let ticket = is_new(&resends, 1).await.unwrap();
    Resends::accept(vec![ticket]);
    assert!(is_new(&resends, 1).await.is_none());
    assert!(is_new(&resends, 2).await.is_some());
    assert_ne!(digest(b"x", 0), digest(b"x", 1), "other senders are others");
}

#[tokio::test]
async fn the_same_request_waits_for_the_one_under_way() {
    let resends = Resends::new(&config());
    let first = is_new(&resends, 1).await.unwrap();
    let other = resends.clone();
    let second = tokio::spawn(async move { is_new(&other, 1).await.is_none() });
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    Resends::accept(vec![first]);
    assert!(second.await.unwrap(), "it was accepted meanwhile");

    let first = is_new(&resends, 2).await.unwrap();
    let other = resends.clone();
    let second = tokio::spawn(async move { is_new(&other, 2).await.is_some() });
    tokio::task::yield_now().await;
    drop(first);
    assert!(second.await.unwrap(), "a failed commit frees the digest");

    let _first = is_new(&resends, 3).await.unwrap();
    let late = resends.begin(name(3), Duration::from_millis(10)).await;
    assert!(matches!(late, Err(Error::Timeout(_))), "{late:?}");
}

#[tokio::test]
async fn requests_are_forgotten_after_the_window_and_beyond_the_bound() {
    let short = config::Intake {
        dedup_window: Period::millis(50),
        ..config()
    };
    let resends = Resends::new(&short);
    Resends::accept(vec![is_new(&resends, 1).await.unwrap()]);
    assert!(is_new(&resends, 1).await.is_none());
    tokio::time::sleep(Duration::from_millis(80)).await;
    assert!(is_new(&resends, 1).await.is_some());

    let few = config::Intake {
        dedup_requests: 2,
        ..config()
    };
    let resends = Resends::new(&few);
    for number in 1..=3 {
        Resends::accept(vec![is_new(&resends, number).await.unwrap()]);
    }
    assert!(is_new(&resends, 3).await.is_none());
    assert!(is_new(&resends, 1).await.is_some());
}

#[tokio::test]
async fn the_journal_brings_requests_over_a_restart_also_after_a_torn_write() {
    let dir = tempfile::tempdir().unwrap();
    let few = config::Intake {
        dedup_requests: 100,
        ..config()
    };
    let resends = Resends::open(dir.path(), &few);
    // Over the bound of one file, so that it is changed once.
    for number in 0..150 {
        Resends::accept(vec![is_new(&resends, number).await.unwrap()]);
    }
    drop(resends);
    let log = dir.path().join("resends.log");
    let mut bytes = std::fs::read(&log).unwrap();
    assert_eq!(bytes.len(), 50 * 24);
    bytes.extend_from_slice(b"torn");
    std::fs::write(&log, bytes).unwrap();

    let resends = Resends::open(dir.path(), &few);
    assert!(is_new(&resends, 149).await.is_none());
    assert!(is_new(&resends, 50).await.is_none());
    assert!(is_new(&resends, 20).await.is_some(), "beyond the bound");
    Resends::accept(vec![is_new(&resends, 200).await.unwrap()]);
    let resends = Resends::open(dir.path(), &few);
    assert!(is_new(&resends, 200).await.is_none());
}
