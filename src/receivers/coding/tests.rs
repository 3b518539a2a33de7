use std::io::Write;

use super::*;
use crate::config::ByteSize;
use crate::intake::Budget;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn raw_deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

fn unpacker(limit: u64) -> Unpacker {
    Unpacker::new(&Limits {
        body: ByteSize::bytes(limit),
        ..Limits::default()
    })
}

fn unpack(coding: Coding, bytes: Vec<u8>, limit: u64) -> Result<Bytes, Reject> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let budget = Budget::new(100 << 20);
    let work = async move {
        let mut permit = budget.take(0).unwrap();
        unpacker(limit)
            .unpack(coding, bytes.into(), &mut permit)
            .await
    };
    runtime.block_on(async { tokio::spawn(work).await.unwrap() })
}

#[test]
fn h_15_zlib_and_raw_deflate_and_zstd_are_read() {
    let text = b"the quick brown fox ".repeat(20_000);
    for (coding, packed) in [
        (Coding::Deflate, zlib(&text)),
        (Coding::Deflate, raw_deflate(&text)),
        (Coding::Zstd, zstd(&text)),
        (Coding::Gzip, gzip(&text)),
        (Coding::Identity, text.clone()),
    ] {
        assert_eq!(unpack(coding, packed, 1 << 20).unwrap(), text, "{coding:?}");
    }
    let two_frames = [zstd(b"one "), zstd(b"two")].concat();
    assert_eq!(unpack(Coding::Zstd, two_frames, 100).unwrap(), "one two");
}

#[test]
fn h_18_gzip_of_several_members_is_read_whole() {
    let packed = [gzip(b"one "), gzip(b"two")].concat();
    assert_eq!(unpack(Coding::Gzip, packed, 100).unwrap(), "one two");
}

#[test]
fn gzip_filled_up_with_zeros_is_read() {
    for zeros in [1, 3, 9, 10, 511, 100_000] {
        let packed = [gzip(b"one "), gzip(b"two"), vec![0; zeros]].concat();
        assert_eq!(unpack(Coding::Gzip, packed, 100).unwrap(), "one two");
        let packed = [gzip(b"one "), vec![0; zeros], gzip(b"two")].concat();
        assert!(unpack(Coding::Gzip, packed, 100).is_err(), "{zeros}");
        let cut = gzip(&b"the quick brown fox".repeat(50));
        let cut = [&cut[..cut.len() - 9], &vec![0; zeros][..]].concat();
        assert!(unpack(Coding::Gzip, cut, 2000).is_err(), "{zeros}");
    }
    assert!(unpack(Coding::Gzip, vec![0; 100], 100).is_err());
}

#[test]
fn h_18_bodies_cut_short_or_mislabelled_are_bad_data() {
    let text: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).collect();
    for (coding, whole) in [
        (Coding::Gzip, gzip(&text)),
        (Coding::Deflate, zlib(&text)),
        (Coding::Deflate, raw_deflate(&text)),
        (Coding::Zstd, zstd(&text)),
    ] {
        assert_eq!(unpack(coding, whole.clone(), 1 << 20).unwrap(), text);
        for cut in [1, 5, whole.len() / 2, whole.len() - 3] {
            let result = unpack(coding, whole[..whole.len() - cut].to_vec(), 1 << 20);
            let text = format!("{coding:?} without {cut}: {result:?}");
            assert!(matches!(result, Err(Reject::BadData { .. })), "{text}");
        }
        let result = unpack(coding, b"plain text, as it is".to_vec(), 1 << 20);
        assert!(
            matches!(result, Err(Reject::BadData { .. })),
            "{coding:?}: {result:?}"
        );
    }
}

#[test]
fn h_20_bombs_stop_at_the_limit() {
    let zeros = vec![0; 8 << 20];
    for (coding, packed) in [
        (Coding::Gzip, gzip(&zeros)),
        (Coding::Deflate, zlib(&zeros)),
        (Coding::Deflate, raw_deflate(&zeros)),
        (Coding::Zstd, zstd(&zeros)),
    ] {
        for limit in [100_000, 5 << 20] {
            let result = unpack(coding, packed.clone(), limit);
            assert!(
                matches!(result, Err(Reject::TooLarge { limit: told, .. }) if told as u64 == limit),
                "{coding:?}"
            );
        }
        assert_eq!(unpack(coding, packed, 8 << 20).unwrap().len(), 8 << 20);
    }
}

#[test]
fn h_20_a_zstd_window_over_the_limit_is_refused() {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(b"small").unwrap();
    let packed = encoder.finish().unwrap();
    let Err(reject @ Reject::BadData { .. }) = unpack(Coding::Zstd, packed, 1 << 20) else {
        panic!("it was read");
    };
    let text = reject.message();
    assert!(
        text.contains("a window of 134217728 bytes") && text.contains("67108864 at most"),
        "{text}"
    );
    assert!(!text.contains("cut short"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn decompressed_bytes_count_against_the_budget() {
    let budget = Budget::new(200_000);
    let mut permit = budget.take(10).unwrap();
    let packed = gzip(&vec![0; 300_000]).into();
    let result = unpacker(1 << 20)
        .unpack(Coding::Gzip, packed, &mut permit)
        .await;
    assert!(matches!(result, Err(Reject::Unavailable(_))));
    drop(permit);
    assert_eq!(budget.used(), 0);
}

#[test]
fn h_14_h_17_content_codings_are_told_by_name() {
    for (name, coding) in [
        ("", Some(Coding::Identity)),
        ("identity", Some(Coding::Identity)),
        ("GZip", Some(Coding::Gzip)),
        (" zstd ", Some(Coding::Zstd)),
        ("deflate", Some(Coding::Deflate)),
        ("br", None),
        ("gzip, gzip", None),
        ("gzip, identity", None),
    ] {
        assert_eq!(Coding::named(name.as_bytes()), coding, "{name}");
    }
    let mut headers = HeaderMap::new();
    headers.append(CONTENT_ENCODING, "gzip".parse().unwrap());
    assert_eq!(Coding::of(&headers), Ok(Coding::Gzip));
    headers.append(CONTENT_ENCODING, "gzip".parse().unwrap());
    assert!(matches!(Coding::of(&headers), Err(Reject::Coding(_))));
}

#[test]
fn tiny_gzip_members_cost_what_they_hold() {
    let (member, count) = (gzip(b"x"), 200_000);
    let started = std::time::Instant::now();
    let unpacked = unpack(Coding::Gzip, member.repeat(count), 1 << 20).unwrap();
    assert_eq!(unpacked.len(), count);
    // With a step's room zeroed for each of them it would be 13 GB.
    assert!(started.elapsed() < std::time::Duration::from_secs(10));
}
