//! Every change in Redis, as Lua that runs there as one.
//!
//! Two rules make it safe to repeat any of them, and to have late commands of a connection that was
//! given up arrive at any time:
//!
//! - A producer's commands carry the position after which they may happen (`<epoch>:<sequence>`, kept
//!   in `pushed`); each connection begins with a new epoch, so that older commands do nothing.
//! - A worker's commands carry the epoch in its lease; likewise.
//!
//! Commands that free memory must also work when Redis is at `maxmemory`. It refuses commands that
//! could need memory (LMOVE, ZADD, SET) unless the script has written before, so those scripts first
//! write something that it always lets through (PEXPIRE).

use std::sync::LazyLock;

use redis::Script;

/// The same script, loaded by its hash.
macro_rules! script {
    ($(#[$doc:meta])* $name:ident, $code:literal) => {
        $(#[$doc])*
        pub(super) static $name: LazyLock<Script> = LazyLock::new(|| Script::new($code));
    };
}

script!(
    /// Begins a producer's connection. Keys: pushed. Args: epoch, ms to keep the key.
    /// Returns whether the key was there, and the last sequence that is in the queue.
    FENCE,
    r"
    local last = redis.call('GET', KEYS[1])
    local sequence = last and string.match(last, ':(%d+)$') or '0'
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    redis.call('SET', KEYS[1], ARGV[1] .. ':' .. sequence, 'PX', ARGV[2])
    return {last and 1 or 0, sequence}
    "
);

script!(
    /// Writes what is there already, if Redis takes writes. Keys: pushed. Args: position, ms to keep it.
    PROBE,
    r"
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return 1
    "
);

script!(
    /// Appends a frame. Keys: queue, pushed, depth, last. Args: position before, position after, ms to
    /// keep that, frame, its id, ms to keep that, its length, records by receiver. Returns 1, or 0 when
    /// it is not its turn, or 2 when it or a later one of its daemon went in before.
    PUSH,
    r"
    if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
    local last = redis.call('GET', KEYS[4])
    if last and last >= ARGV[5] then return 2 end
    redis.call('RPUSH', KEYS[1], ARGV[4])
    redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
    redis.call('SET', KEYS[4], ARGV[5], 'PX', ARGV[6])
    redis.call('HINCRBY', KEYS[3], 'frames', 1)
    redis.call('HINCRBY', KEYS[3], 'bytes', ARGV[7])
    for i = 0, 2 do
      if ARGV[8 + i] ~= '0' then redis.call('HINCRBY', KEYS[3], 'records' .. i, ARGV[8 + i]) end
    end
    return 1
    "
);

script!(
    /// Appends frames of the spill, except those that are in: all, or none. Keys: queue, depth, last.
    /// Args: ms to keep last; then of each frame its id, itself, and its records by receiver. Returns how
    /// many it appended.
    DRAIN,
    r"
    local last = redis.call('GET', KEYS[3]) or ''
    local frames, bytes, records = 0, 0, {0, 0, 0}
    for i = 2, #ARGV, 5 do
      if ARGV[i] > last then
        redis.call('RPUSH', KEYS[1], ARGV[i + 1])
        last, frames, bytes = ARGV[i], frames + 1, bytes + #ARGV[i + 1]
        for r = 1, 3 do records[r] = records[r] + tonumber(ARGV[i + 1 + r]) end
      end
    end
    if frames == 0 then return 0 end
    redis.call('SET', KEYS[3], last, 'PX', ARGV[1])
    redis.call('HINCRBY', KEYS[2], 'frames', frames)
    redis.call('HINCRBY', KEYS[2], 'bytes', bytes)
    for r = 1, 3 do
      if records[r] > 0 then redis.call('HINCRBY', KEYS[2], 'records' .. (r - 1), records[r]) end
    end
    return frames
    "
);

script!(
    /// Takes a worker's lease. Keys: lease, workers. Args: epoch, ms, worker.
    REGISTER,
    r"
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    redis.call('SADD', KEYS[2], ARGV[3])
    return 1
    "
);

script!(
    /// Renews a lease (of a worker or a node number). Keys: lease. Args: its value, ms.
    /// Returns 0 when it is not ours any more.
    RENEW,
    r"
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
    "
);

script!(
    /// Moves frames from the queue's head to a worker's claim list. Keys: queue, claim, lease.
    /// Args: epoch, lease ms, rows and bytes that the claim may still take, 1 if it has frames already,
    /// most bytes of this step. Returns -1 without the lease; else whether the next frame would not
    /// fit, and the frames. Rows are at byte 12 of a frame, see `frame`.
    TAKE,
    r"
    if redis.call('GET', KEYS[3]) ~= ARGV[1] then return {-1, {}} end
    redis.call('PEXPIRE', KEYS[3], ARGV[2])
    local rows, bytes, some = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1'
    local step, frames = tonumber(ARGV[6]), {}
    while step > 0 do
      local frame = redis.call('LINDEX', KEYS[1], 0)
      if not frame then break end
      local a, b, c, d = string.byte(frame, 13, 16)
      rows = rows - (d and a + b * 256 + c * 65536 + d * 16777216 or 0)
      bytes = bytes - #frame
      step = step - #frame - 64
      if some and (rows < 0 or bytes < 0) then return {1, frames} end
      redis.call('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT')
      frames[#frames + 1] = frame
      some = true
    end
    return {(some and (rows <= 0 or bytes <= 0)) and 1 or 0, frames}
    "
);

script!(
    /// Takes a damaged frame out of a claim list. Keys: claim, depth, lease. Args: epoch, frame, its
    /// length, records by receiver.
    DISCARD,
    r"
    if redis.call('GET', KEYS[3]) ~= ARGV[1] then return -1 end
    if redis.call('LREM', KEYS[1], 1, ARGV[2]) == 1 then
      redis.call('HINCRBY', KEYS[2], 'frames', -1)
      redis.call('HINCRBY', KEYS[2], 'bytes', -tonumber(ARGV[3]))
      for i = 0, 2 do
        if ARGV[4 + i] ~= '0' then redis.call('HINCRBY', KEYS[2], 'records' .. i, -tonumber(ARGV[4 + i])) end
      end
    end
    return 1
    "
);

script!(
    /// Seals a claim list under its token. Keys: claim (or a list adopted unsealed), sealed, claims,
    /// lease. Args: epoch, token, sealed at, its length, the name it has in claims so far or ''.
    /// Returns 1; -1 without the lease; 0 when the list is not what the caller thinks.
    SEAL,
    r"
    if redis.call('GET', KEYS[4]) ~= ARGV[1] then return -1 end
    if redis.call('EXISTS', KEYS[1]) == 0 then return redis.call('EXISTS', KEYS[2]) end
    if redis.call('LLEN', KEYS[1]) ~= tonumber(ARGV[4]) then return 0 end
    redis.call('RENAME', KEYS[1], KEYS[2])
    if ARGV[5] ~= '' then redis.call('ZREM', KEYS[3], ARGV[5]) end
    redis.call('ZADD', KEYS[3], ARGV[3], ARGV[2])
    return 1
    "
);

script!(
    /// Forgets a claim. Keys: sealed, claims, depth. Args: token, frames, bytes, records by receiver.
    /// Returns 0 when it was forgotten or adopted before.
    ACK,
    r"
    redis.call('ZREM', KEYS[2], ARGV[1])
    if redis.call('UNLINK', KEYS[1]) == 0 then return 0 end
    redis.call('HINCRBY', KEYS[3], 'frames', -tonumber(ARGV[2]))
    redis.call('HINCRBY', KEYS[3], 'bytes', -tonumber(ARGV[3]))
    for i = 0, 2 do
      if ARGV[4 + i] ~= '0' then redis.call('HINCRBY', KEYS[3], 'records' .. i, -tonumber(ARGV[4 + i])) end
    end
    return 1
    "
);

script!(
    /// Takes over the lists of a worker whose lease has run out. Keys: its lease, claim and claims; own
    /// lease and claims; workers. Args: epoch, lease ms, the two sealed prefixes, the worker, a name for
    /// its unsealed list, now. Returns how many lists it took, or -1.
    ADOPT,
    r"
    if redis.call('GET', KEYS[4]) ~= ARGV[1] or redis.call('EXISTS', KEYS[1]) == 1 then return -1 end
    redis.call('PEXPIRE', KEYS[4], ARGV[2])
    local taken = 0
    local claims = redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES')
    for i = 1, #claims, 2 do
      if redis.call('EXISTS', ARGV[3] .. claims[i]) == 1 then
        redis.call('RENAME', ARGV[3] .. claims[i], ARGV[4] .. claims[i])
        redis.call('ZADD', KEYS[5], claims[i + 1], claims[i])
        taken = taken + 1
      end
    end
    if redis.call('EXISTS', KEYS[2]) == 1 then
      redis.call('RENAME', KEYS[2], ARGV[4] .. ARGV[6])
      redis.call('ZADD', KEYS[5], ARGV[7], ARGV[6])
      taken = taken + 1
    end
    redis.call('UNLINK', KEYS[3])
    redis.call('SREM', KEYS[6], ARGV[5])
    return taken
    "
);

script!(
    /// Holds the depth against what is in the lists. Keys: depth, queue, workers. Args: prefixes of claim,
    /// claims and sealed. Returns how many frames are missing, and the records by receiver that were
    /// written off with them: that is done once the lists are empty, before that nobody knows whose
    /// frames they were.
    AUDIT,
    r"
    local frames = redis.call('LLEN', KEYS[2])
    for _, worker in ipairs(redis.call('SMEMBERS', KEYS[3])) do
      frames = frames + redis.call('LLEN', ARGV[1] .. worker)
      for _, name in ipairs(redis.call('ZRANGE', ARGV[2] .. worker, 0, -1)) do
        frames = frames + redis.call('LLEN', ARGV[3] .. worker .. ':' .. name)
      end
    end
    local missing = tonumber(redis.call('HGET', KEYS[1], 'frames') or '0') - frames
    if missing == 0 or frames > 0 then return {missing, 0, 0, 0} end
    local records = redis.call('HMGET', KEYS[1], 'records0', 'records1', 'records2')
    redis.call('DEL', KEYS[1])
    for i = 1, 3 do records[i] = math.max(tonumber(records[i] or '0'), 0) end
    return {missing, records[1], records[2], records[3]}
    "
);

script!(
    /// Headers and digests of frames in a list. Keys: list. Args: first, last. The number of digests is
    /// at byte 52 of a frame, see `frame`.
    BEGINNINGS,
    r"
    local found = redis.call('LRANGE', KEYS[1], ARGV[1], ARGV[2])
    for i = 1, #found do
      local a, b, c = string.byte(found[i], 53, 55)
      found[i] = string.sub(found[i], 1, 64 + 16 * (c and a + b * 256 + c * 65536 or 0))
    end
    return found
    "
);

script!(
    /// The header of the oldest frame in a list. Keys: list.
    PEEK,
    r"
    local frame = redis.call('LINDEX', KEYS[1], 0)
    return frame and string.sub(frame, 1, 64) or false
    "
);
