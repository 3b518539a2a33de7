//! How ClickHouse and Redis answer, asked every few seconds.
//!
//! The stages notice a server that refuses or is gone by themselves, and only when they need it. One that
//! hangs, with its sockets open, keeps them waiting; here it is noticed within 15 seconds.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, timeout};

use crate::queue::Queue;
use crate::store::Reader;

/// How often they are asked.
const EVERY: Duration = Duration::from_secs(4);
/// How long an answer may take.
const WITHIN: Duration = Duration::from_secs(3);
/// Questions in a row without an answer before a server counts as away: one may be lost to a busy
/// machine.
const MISSES: u32 = 2;
/// Longest time until a server that hangs is known to.
#[cfg(test)]
const NOTICED: Duration = Duration::from_secs(15);

/// How one server answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Beat {
    /// Time that the last answer took; none before the first.
    pub(super) took: Option<Duration>,
    /// Why there was no answer lately; none while it answers.
    pub(super) error: Option<String>,
    misses: u32,
}

impl Beat {
    fn note(&mut self, answer: Result<Duration, String>) {
        match answer {
            Ok(took) => {
                *self = Beat {
                    took: Some(took),
                    ..Beat::default()
                }
            }
            Err(error) => {
                self.misses += 1;
                if self.misses >= MISSES {
                    self.error = Some(error);
                }
            }
        }
    }
}

/// How both answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Beats {
    pub(super) store: Beat,
    /// ClickHouse's version, as of its last answer.
    pub(super) version: Option<String>,
    /// Nothing with the disk queue.
    pub(super) redis: Option<Beat>,
}

/// Asks for ever; what it is told last can be read from the other end.
pub(super) async fn run(reader: Reader, queue: Queue, beats: watch::Sender<Beats>) {
    let mut interval = tokio::time::interval(EVERY);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let store = asked(async { reader.version().await.map_err(|error| error.to_string()) });
        let redis = async {
            let Queue::Redis(redis) = &queue else {
                return None;
            };
            let ping = async { redis.ping().await.map_err(|error| error.to_string()) };
            Some(asked(ping).await)
        };
        let (store, redis) = tokio::join!(store, redis);
        beats.send_modify(|beats| {
            beats.store.note(store.map(|(version, took)| {
                beats.version = Some(version);
                took
            }));
            if let Some(answer) = redis {
                let answer = answer.map(|((), took)| took);
                beats.redis.get_or_insert_default().note(answer);
            }
        });
    }
}

async fn asked<T>(
    question: impl Future<Output = Result<T, String>>,
) -> Result<(T, Duration), String> {
    let started = Instant::now();
    match timeout(WITHIN, question).await {
        Ok(answer) => answer.map(|answer| (answer, started.elapsed())),
        Err(_) => Err(format!(
            "no answer within {WITHIN:?}; it hangs, or is overloaded"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_missing_answer_says_nothing_two_do() {
        let mut beat = Beat::default();
        beat.note(Ok(Duration::from_millis(2)));
        beat.note(Err("late".to_owned()));
        assert_eq!(
            (beat.error.as_deref(), beat.took),
            (None, Some(Duration::from_millis(2)))
        );
        beat.note(Err("late".to_owned()));
        assert_eq!(beat.error.as_deref(), Some("late"));
        beat.note(Ok(Duration::from_millis(3)));
        assert_eq!(
            (beat.error, beat.took),
            (None, Some(Duration::from_millis(3)))
        );
    }

    #[test]
    fn what_hangs_is_noticed_in_time() {
        assert!((EVERY + WITHIN) * MISSES <= NOTICED);
    }
}
