//! Writes the records as Native blocks into files, for measuring the engine's own ceiling: what
//! ClickHouse takes when nothing but the blocks reaches it.

use std::path::Path;

use anyhow::Result;
use watchtower::config::Config;
use watchtower::frame::{BlockBuilder, ID_STEP, Seal};
use watchtower::normalize::Context;
use watchtower::receivers::decode::decode_protobuf;
use watchtower::record::Receiver;

use crate::records::{Random, Template};
use crate::{Args, Protocol};

/// Rows of one file, which is one INSERT: what the daemon's writer sends at once under load.
const ROWS_PER_FILE: u64 = 100_000;

/// Writes `args.total` records, in blocks of `args.records`, into files of 100,000 rows under `dir`.
pub(crate) fn write(args: &Args, dir: &Path, now_nanos: u64) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let args = Args {
        protocol: Protocol::Http,
        ..args.clone()
    };
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut templates = (0..4)
        .map(|_| Template::new(&args, &mut random))
        .collect::<Result<Vec<_>>>()?;
    let received_at = i64::try_from(now_nanos)?;
    let config = Config::default();
    let mut builder = BlockBuilder::new();
    let (mut first, mut turn, mut file_number) = (0, 0, 0);
    let mut file = Vec::new();
    let mut rows_in_file = 0;
    while first < args.total {
        let body = templates[turn % 4].patched(first, now_nanos + first * 1000);
        let context = Context::new(Receiver::OtlpGrpc, received_at, &config);
        decode_protobuf(body, &context, &mut builder)?;
        let seal = Seal {
            node: 0,
            first_id: (first + 1) * ID_STEP,
            sealed_at: received_at / 1_000_000,
            digests: Vec::new(),
        };
        file.extend_from_slice(&builder.seal(&seal).payload());
        first += args.records as u64;
        rows_in_file += args.records as u64;
        turn += 1;
        if rows_in_file >= ROWS_PER_FILE || first >= args.total {
            std::fs::write(dir.join(format!("{file_number:04}.native")), &file)?;
            file.clear();
            rows_in_file = 0;
            file_number += 1;
        }
    }
    Ok(())
}
