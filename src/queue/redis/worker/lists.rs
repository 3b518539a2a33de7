//! Lists of frames in Redis: reading them, sealing them, and what to do with frames that are none.

use bytes::Bytes;
use redis::{Script, ScriptInvocation, Value};

use super::{STEP_FRAMES, Trouble, UNSEALED, Worker};
use crate::frame::{Frame, Header};
use crate::queue::redis::scripts;
use crate::queue::{Claim, ClaimKey, token};

impl Worker {
    /// Reads a list of frames. Damaged ones go to the dead letters; with `discard` they leave the list.
    pub(super) async fn read_list(
        &mut self,
        key: &str,
        discard: bool,
    ) -> Result<Vec<Frame>, Trouble> {
        let mut connection = self.connection()?;
        let mut frames = Vec::new();
        let mut at = 0;
        let mut damaged = Vec::new();
        loop {
            let values: Vec<Value> = redis::cmd("LRANGE")
                .arg(key)
                .arg(at)
                .arg(at + STEP_FRAMES - 1)
                .query_async(&mut connection)
                .await?;
            if values.is_empty() {
                break;
            }
            at += STEP_FRAMES;
            for value in values {
                match parse(value) {
                    Ok(frame) => frames.push(frame),
                    Err(bytes) => damaged.push(bytes),
                }
            }
        }
        for bytes in damaged {
            self.set_aside(key, &bytes, discard).await?;
        }
        Ok(frames)
    }

    /// Keeps a damaged frame among the dead letters, and takes it out of the list.
    pub(super) async fn set_aside(
        &mut self,
        key: &str,
        bytes: &Bytes,
        discard: bool,
    ) -> Result<(), Trouble> {
        let why = match Frame::parse(bytes.clone()) {
            Err(error) => error.to_string(),
            Ok(_) => return Ok(()),
        };
        tracing::error!(key, bytes = bytes.len(), %why, "a frame in redis is damaged and goes to the dead letters");
        let (dead, copy) = (self.dead.clone(), bytes.clone());
        let buried = tokio::task::spawn_blocking(move || dead.bury_damaged(&copy, &why)).await;
        if let Ok(Err(error)) = buried {
            tracing::error!(%error, "the damaged frame could not be kept and stays in redis");
            return Err(Trouble::Stale("a damaged frame could not be buried"));
        }
        if !discard {
            return Ok(());
        }
        let records = Header::parse(bytes).map_or([0; 3], |(header, _)| header.accepted);
        let keys = &self.shared.keys;
        let depth = keys.depth();
        let done = self
            .invoke(
                &scripts::DISCARD,
                |call| {
                    call.key(key).key(depth);
                },
                |call| {
                    call.arg(&bytes[..]).arg(bytes.len());
                    for count in records {
                        call.arg(count);
                    }
                },
            )
            .await?;
        match done {
            -1 => Err(Trouble::Stale("another has the lease")),
            _ => Ok(()),
        }
    }

    /// Runs a script whose last key is the lease and whose first argument is its epoch.
    pub(super) async fn invoke(
        &self,
        script: &Script,
        keys: impl FnOnce(&mut ScriptInvocation<'_>),
        args: impl FnOnce(&mut ScriptInvocation<'_>),
    ) -> Result<i64, Trouble> {
        let mut connection = self.connection()?;
        let mut call = script.prepare_invoke();
        keys(&mut call);
        call.key(self.shared.keys.lease(&self.shared.worker));
        call.arg(self.shared.epoch());
        args(&mut call);
        Ok(call.invoke_async(&mut connection).await?)
    }

    pub(super) async fn rename(
        &self,
        from: &str,
        token: &str,
        sealed_at: i64,
        len: usize,
        name: &str,
    ) -> Result<bool, Trouble> {
        let (keys, worker) = (&self.shared.keys, &self.shared.worker);
        let done = self
            .invoke(
                &scripts::SEAL,
                |call| {
                    call.key(from)
                        .key(keys.sealed(worker, token))
                        .key(keys.claims(worker));
                },
                |call| {
                    call.arg(token).arg(sealed_at).arg(len).arg(name);
                },
            )
            .await?;
        match done {
            -1 => Err(Trouble::Stale("another has the lease")),
            done => Ok(done == 1),
        }
    }

    /// Reads a claim that was sealed before; `None` when it is gone.
    pub(super) async fn read_sealed(
        &mut self,
        name: &str,
        sealed_at: i64,
    ) -> Result<Option<Claim>, Trouble> {
        let unsealed = name.starts_with(UNSEALED);
        let key = self.shared.keys.sealed(&self.shared.worker, name);
        let frames = self.read_list(&key, unsealed).await?;
        if frames.is_empty() {
            self.forget(name).await?;
            return Ok(None);
        }
        let content = token(&frames);
        let mut name = name.to_owned();
        if unsealed {
            if !self
                .rename(&key, &content, sealed_at, frames.len(), &name)
                .await?
            {
                return Err(Trouble::Stale("an adopted list has changed"));
            }
            name.clone_from(&content);
        } else if content != name {
            tracing::error!(sealed = %name, left = %content, "frames of a sealed claim are damaged, the others are delivered under a new token");
        }
        Ok(Some(Claim {
            token: content,
            frames,
            sealed_at,
            redelivered: true,
            key: ClaimKey::Redis(name),
        }))
    }

    /// Takes a claim without frames off the list of claims.
    pub(super) async fn forget(&self, name: &str) -> Result<(), Trouble> {
        let key = self.shared.keys.claims(&self.shared.worker);
        let mut connection = self.connection()?;
        Ok(redis::cmd("ZREM")
            .arg(key)
            .arg(name)
            .query_async(&mut connection)
            .await?)
    }
}

/// The frame in a reply, or the bytes that are none.
pub(super) fn parse(value: Value) -> Result<Frame, Bytes> {
    let bytes = match value {
        Value::BulkString(bytes) => Bytes::from(bytes),
        Value::SimpleString(text) => Bytes::from(text),
        _ => Bytes::new(),
    };
    Frame::parse(bytes.clone()).map_err(|_| bytes)
}
