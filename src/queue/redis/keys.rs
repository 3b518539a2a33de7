//! Names of the keys. All of them have the configured prefix, whose braces keep them in one slot.
//!
//! ```text
//! <prefix>:queue                    list: frames, oldest first
//! <prefix>:pushed:<producer>        string: <epoch>:<sequence> of a producer's last frame
//! <prefix>:last:<worker>:<node>     string: id of a daemon's last frame in the queue, as 16 hex digits
//! <prefix>:depth                    hash: frames, bytes, records0..2, all that is not acknowledged
//! <prefix>:workers                  set: workers that may have lists
//! <prefix>:lease:<worker>           string: epoch; expires
//! <prefix>:claim:<worker>           list: frames taken and not sealed
//! <prefix>:claims:<worker>          sorted set: tokens of sealed claims, by time of sealing
//! <prefix>:sealed:<worker>:<token>  list: a sealed claim
//! <prefix>:node:<n>                 string: who has node number n; expires
//! ```

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Keys {
        Keys {
            prefix: prefix.to_owned(),
        }
    }

    pub(super) fn queue(&self) -> String {
        format!("{}:queue", self.prefix)
    }

    pub(super) fn depth(&self) -> String {
        format!("{}:depth", self.prefix)
    }

    pub(super) fn pushed(&self, producer: &str) -> String {
        format!("{}:pushed:{producer}", self.prefix)
    }

    pub(super) fn last(&self, worker: &str, node: u16) -> String {
        format!("{}:last:{worker}:{node}", self.prefix)
    }

    pub(super) fn workers(&self) -> String {
        format!("{}:workers", self.prefix)
    }

    pub(super) fn lease(&self, worker: &str) -> String {
        format!("{}:lease:{worker}", self.prefix)
    }

    pub(super) fn claim(&self, worker: &str) -> String {
        format!("{}:claim:{worker}", self.prefix)
    }

    pub(super) fn claims(&self, worker: &str) -> String {
        format!("{}:claims:{worker}", self.prefix)
    }

    pub(super) fn sealed(&self, worker: &str, name: &str) -> String {
        format!("{}:sealed:{worker}:{name}", self.prefix)
    }

    /// What the names of all sealed claims begin with; `<worker>:<token>` follows.
    pub(super) fn sealed_of_all(&self) -> String {
        format!("{}:sealed:", self.prefix)
    }

    pub(super) fn node(&self, node: u16) -> String {
        format!("{}:node:{node}", self.prefix)
    }
}
