//! Pauses between attempts.

use std::time::Duration;

use tokio::time::sleep;

use super::super::EndpointSource;

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(15);

/// Pauses that double, with jitter, so that several writers do not come back together.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// Pauses so far.
    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Waits; shorter when another endpoint appears, as when the engine is up again.
    pub(super) async fn pause(&mut self, endpoint: Option<EndpointSource>) {
        let pause = sleep(jittered(self.next()));
        match endpoint {
            Some(mut endpoint) => {
                tokio::select! {
                    () = pause => {}
                    Ok(_) = endpoint.wait_for(Option::is_some), if endpoint.borrow().is_none() => {}
                }
            }
            None => pause.await,
        }
    }

    fn next(&mut self) -> Duration {
        let pause = FIRST * 2u32.saturating_pow(self.attempts.min(16));
        self.attempts = self.attempts.saturating_add(1);
        pause.min(LONGEST)
    }
}

/// Three quarters of a pause to all of it.
fn jittered(pause: Duration) -> Duration {
    let mut random = [0];
    // Without randomness the pause is as good, only not spread.
    getrandom::fill(&mut random).ok();
    pause - pause * u32::from(random[0]) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u128> = (0..9).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(
            pauses,
            [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 15_000, 15_000]
        );
        backoff.attempts = u32::MAX;
        assert_eq!(backoff.next(), LONGEST);
        assert_eq!(backoff.attempts(), u32::MAX);
    }

    #[test]
    fn jitter_only_shortens_and_by_a_quarter_at_most() {
        for _ in 0..100 {
            let pause = jittered(LONGEST);
            assert!(pause <= LONGEST && pause >= LONGEST * 3 / 4, "{pause:?}");
        }
    }
}
