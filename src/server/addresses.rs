//! How many connections one address may have, so that none keeps all others out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;

/// What counts as one address: IPv4 as it is, also where it comes as IPv6, and of IPv6 the first 64 bits,
/// since whoever has one address of a network has all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Origin(u128);

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Origin {
        match address.to_canonical() {
            IpAddr::V4(address) => Origin(address.to_bits().into()),
            // No IPv4 address has any of these bits.
            IpAddr::V6(address) => Origin(address.to_bits() >> 64 << 64),
        }
    }
}

/// Who asks: whom a connection comes from, or behind a proxy on this machine the proxy's client. Proxies add
/// to the end of the list, so that only its last entry is known not to be made up by a client.
pub(crate) fn asking(address: IpAddr, headers: &HeaderMap) -> IpAddr {
    let address = address.to_canonical();
    if !address.is_loopback() {
        return address;
    }
    headers
        .get("x-forwarded-for")
        .and_then(|list| list.to_str().ok())
        .and_then(|list| list.rsplit(',').next())
        .and_then(|last| last.trim().parse().ok())
        .unwrap_or(address)
}

/// Counts the connections of each address that has some. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    open: Arc<Mutex<HashMap<Origin, usize>>>,
    refused: Arc<AtomicU64>,
}

/// One connection's place. Dropping it makes it free.
#[derive(Debug)]
#[must_use = "a place that is dropped is free again"]
pub(super) struct Place {
    addresses: Addresses,
    origin: Origin,
}

impl Addresses {
    /// Takes a place, if the address has fewer than `limit`; 0 stands for any number.
    pub(super) fn take(&self, address: IpAddr, limit: usize) -> Option<Place> {
        let origin = Origin::from(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let here = open.entry(origin).or_default();
        // An entry that is made here is below every limit, so that none stays empty.
        if limit > 0 && *here >= limit {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        *here += 1;
        Some(Place {
            addresses: self.clone(),
            origin,
        })
    }

    /// Connections that were closed at once since the start.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let open = self.addresses.open.lock();
        let mut open = open.unwrap_or_else(PoisonError::into_inner);
        if let Some(here) = open.get_mut(&self.origin) {
            *here -= 1;
            if *here == 0 {
                open.remove(&self.origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn one_network_of_ipv6_is_one_address() {
        assert_eq!(origin("2001:db8:1:2::1"), origin("2001:db8:1:2:ffff::9"));
        assert_ne!(origin("2001:db8:1:2::1"), origin("2001:db8:1:3::1"));
        assert_eq!(origin("::ffff:192.0.2.7"), origin("192.0.2.7"));
        assert_ne!(origin("192.0.2.7"), origin("192.0.2.8"));
        assert_ne!(origin("192.0.2.7"), origin("::c000:207"));
    }

    #[test]
    fn only_a_proxy_on_this_machine_says_who_asks() {
        let headers = HeaderMap::from_iter(
            [("x-forwarded-for", "10.0.0.1, 192.0.2.9")]
                .map(|(name, list)| (http::HeaderName::from_static(name), list.parse().unwrap())),
        );
        let asks = |from: &str, headers| asking(from.parse().unwrap(), headers).to_string();
        assert_eq!(asks("127.0.0.1", &headers), "192.0.2.9");
        assert_eq!(asks("::1", &headers), "192.0.2.9");
        assert_eq!(asks("192.0.2.1", &headers), "192.0.2.1");
        assert_eq!(asks("127.0.0.1", &HeaderMap::new()), "127.0.0.1");
    }

    #[test]
    fn places_are_counted_for_each_address_and_come_back() {
        let addresses = Addresses::default();
        let take = |text: &str, limit| addresses.take(text.parse().unwrap(), limit);
        let held = (take("192.0.2.1", 2), take("192.0.2.1", 2));
        assert!(take("192.0.2.1", 2).is_none());
        assert!(take("192.0.2.2", 2).is_some());
        assert!(take("192.0.2.1", 0).is_some(), "0 is no limit");
        assert_eq!(addresses.refused(), 1);
        drop(held);
        assert!(addresses.open.lock().unwrap().is_empty());
    }
}
