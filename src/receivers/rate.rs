//! How many requests a second one address may send.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::server::Origin;

/// Most addresses that are remembered. Who sends from more is not to be held by such a limit.
const MAX_ADDRESSES: usize = 1 << 16;

/// Counts requests by address. An address may send a second's worth at once, and then as many a second.
#[derive(Debug)]
pub(super) struct Rates {
    /// Between two requests; `None` while there is no limit.
    every: Option<Duration>,
    /// When the requests that an address sent will have been due, had it sent them evenly.
    due: Mutex<HashMap<Origin, Instant>>,
}

impl Rates {
    /// A limit of so many requests a second; 0 stands for none.
    pub(super) fn new(per_second: u32) -> Rates {
        Rates {
            every: (per_second > 0).then(|| Duration::from_secs(1) / per_second),
            due: Mutex::default(),
        }
    }

    /// Whether there is a limit.
    pub(super) fn is_on(&self) -> bool {
        self.every.is_some()
    }

    /// Whether a request of this address may be taken now; counts it if so.
    pub(super) fn allows(&self, address: IpAddr, now: Instant) -> bool {
        let Some(every) = self.every else {
            return true;
        };
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = Origin::from(address);
        if due.len() >= MAX_ADDRESSES && !due.contains_key(&origin) {
            due.retain(|_, due| *due > now);
            if due.len() >= MAX_ADDRESSES {
                return true;
            }
        }
        let mine = due.entry(origin).or_insert(now);
        let next = (*mine).max(now) + every;
        if next > now + Duration::from_secs(1).max(every) {
            return false;
        }
        *mine = next;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn an_address_may_send_a_seconds_worth_at_once_and_then_as_many_a_second() {
        let (rates, start) = (Rates::new(10), Instant::now());
        let sent = |address, after: u64, count| {
            let now = start + Duration::from_millis(after);
            (0..count).filter(|_| rates.allows(address, now)).count()
        };
        assert_eq!(sent(ONE, 0, 50), 10);
        assert_eq!(sent(OTHER, 0, 3), 3);
        assert_eq!(sent(ONE, 500, 50), 5);
        assert_eq!(sent(ONE, 550, 50), 0);
        assert_eq!(sent(ONE, 60_000, 50), 10);
        assert_eq!(sent(OTHER, 60_000, 50), 10);
    }

    #[test]
    fn zero_is_no_limit_and_one_is_one() {
        let now = Instant::now();
        let (none, one) = (Rates::new(0), Rates::new(1));
        assert!((0..1000).all(|_| none.allows(ONE, now)));
        assert_eq!((0..10).filter(|_| one.allows(ONE, now)).count(), 1);
        assert!(one.allows(ONE, now + Duration::from_secs(1)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (rates, now) = (Rates::new(1), Instant::now());
        let address = |number: u32| IpAddr::V4(std::net::Ipv4Addr::from_bits(number));
        let many = u32::try_from(MAX_ADDRESSES).unwrap() + 100;
        assert!((0..many).all(|number| rates.allows(address(number), now)));
        assert_eq!(rates.due.lock().unwrap().len(), MAX_ADDRESSES);
        let later = now + Duration::from_secs(5);
        assert!(rates.allows(address(many), later));
        assert_eq!(rates.due.lock().unwrap().len(), 1);
    }
}
