//! How many may watch at once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Why one more viewer is too many.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeatsFull {
    /// All seats are taken.
    #[error("{0} viewers are connected, which is the limit; see `live.viewers`")]
    All(usize),
    /// One address has all that an address may have.
    #[error(
        "this address has {0} live views open, which is the limit; see `live.viewers_per_address`"
    )]
    Address(usize),
}

/// Counts viewers, in all and by address.
#[derive(Debug, Clone)]
pub struct Seats {
    most: usize,
    most_per_address: usize,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One viewer's place. Dropping it makes it free.
#[derive(Debug)]
#[must_use = "a seat that is dropped is free again"]
pub struct Seat {
    seats: Seats,
    address: IpAddr,
}

impl Seats {
    /// So many seats in all, and so many for one address.
    #[must_use]
    pub fn new(most: usize, most_per_address: usize) -> Self {
        Self {
            most,
            most_per_address,
            taken: Arc::default(),
        }
    }

    /// Takes a seat.
    ///
    /// # Errors
    /// When there is none.
    pub fn take(&self, address: IpAddr) -> Result<Seat, SeatsFull> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.values().sum::<usize>() >= self.most {
            return Err(SeatsFull::All(self.most));
        }
        let here = taken.entry(address).or_default();
        if *here >= self.most_per_address {
            return Err(SeatsFull::Address(self.most_per_address));
        }
        *here += 1;
        Ok(Seat {
            seats: self.clone(),
            address,
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self
            .seats
            .taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(here) = taken.get_mut(&self.address) {
            *here -= 1;
            if *here == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_bounded_and_come_back() {
        let seats = Seats::new(3, 2);
        let (a, b) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let first = seats.take(a).unwrap();
        let _second = seats.take(a).unwrap();
        assert_eq!(seats.take(a).unwrap_err(), SeatsFull::Address(2));
        let _third = seats.take(b).unwrap();
        assert_eq!(seats.take(b).unwrap_err(), SeatsFull::All(3));
        drop(first);
        let _fourth = seats.take(a).unwrap();
    }
}
