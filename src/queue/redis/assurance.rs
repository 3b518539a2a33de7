//! What must have a frame besides Redis's memory before it counts as queued: replicas (`WAIT`), or
//! append-only files (`WAITAOF`). Off by default, and then nothing is sent.
//!
//! Both commands tell of everything that their connection has written before. A shortfall is told as a
//! refusal: what was written stays in the queue, but nobody is told that it is safe.

use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, ServerErrorKind, Value, make_extension_error};

use super::connect::words;
use crate::config::RedisQueueConfig;

/// A wait that is under way.
pub(super) type Assuring = BoxFuture<'static, Result<(), RedisError>>;

/// What is waited for.
#[derive(Debug, Clone)]
pub(super) struct Assurance {
    replicas: u16,
    aof: bool,
    within: Duration,
}

impl Assurance {
    /// `patience` is how long a frame may wait before it is spilled.
    pub(super) fn new(config: &RedisQueueConfig, patience: Option<Duration>) -> Assurance {
        let timeout = config.timeout.duration();
        Assurance {
            replicas: config.wait_replicas,
            aof: config.wait_aof,
            // Less than what waits for the answer to this command, so that it is an answer.
            within: patience.unwrap_or(timeout).min(timeout) / 2,
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.aof || self.replicas > 0
    }

    fn command(&self) -> &'static str {
        if self.aof { "WAITAOF" } else { "WAIT" }
    }

    fn refusal(&self, text: String) -> RedisError {
        make_extension_error(self.command().to_owned(), Some(text))
    }

    /// Waits for what was written over this connection before the first poll.
    pub(super) fn wait(&self, connection: &MultiplexedConnection) -> Assuring {
        let mut connection = connection.clone();
        let mut command = redis::cmd(self.command());
        if self.aof {
            command.arg(1);
        }
        // 0 would be for ever.
        let within = self.within.as_millis().max(1);
        command
            .arg(self.replicas)
            .arg(u64::try_from(within).unwrap_or(u64::MAX));
        let wanted = self.clone();
        Box::pin(async move {
            match command.query_async::<Value>(&mut connection).await {
                Ok(value) => wanted.check(&value),
                Err(error) => Err(wanted.explain(error)),
            }
        })
    }

    fn check(&self, answer: &Value) -> Result<(), RedisError> {
        let (local, replicas) = match answer {
            Value::Int(replicas) => (1, *replicas),
            Value::Array(both) => match both.as_slice() {
                [Value::Int(local), Value::Int(replicas)] => (*local, *replicas),
                _ => (0, 0),
            },
            _ => (0, 0),
        };
        let wanted = i64::from(self.replicas);
        if local < 1 {
            let text = format!(
                "redis had not synced its append-only file within {:?}; see `queue.redis.wait_aof`",
                self.within
            );
            return Err(self.refusal(text));
        }
        if replicas < wanted {
            let text = format!(
                "{replicas} of {wanted} replicas had it within {:?}; see `queue.redis.wait_replicas`",
                self.within
            );
            return Err(self.refusal(text));
        }
        Ok(())
    }

    /// Says which setting it was that Redis does not know.
    fn explain(&self, error: RedisError) -> RedisError {
        if self.aof && error.kind() == ServerErrorKind::ResponseError.into() {
            let text = format!(
                "`queue.redis.wait_aof` needs redis 7.2 or later with an append-only file: {}",
                words(&error)
            );
            return self.refusal(text);
        }
        error
    }
}
