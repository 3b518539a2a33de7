//! The walkers against prost: any request that prost can make comes out of the protobuf walker and
//! of the JSON walker as a plain mapping of prost's structs says.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

use super::expected::{expected, num_records};
use super::generate::any_request;
use super::otlp_writer::Style;
use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn protobuf_comes_out_as_prost_reads_it(request in any_request()) {
        let (outcome, rows) = run(PROTOBUF, request.encode_to_vec()).unwrap();
        prop_assert_eq!(rows, expected(&request));
        prop_assert_eq!((outcome.rejected, outcome.message), (0, None));
    }

    #[test]
    fn json_comes_out_as_protobuf_does(
        request in any_request(),
        (snake_case, numbers_in_quotes, backwards) in any::<(bool, bool, bool)>(),
    ) {
        let style = Style { snake_case, numbers_in_quotes, backwards };
        let (outcome, mut rows) = run(JSON, style.request(&request)).unwrap();
        // The writer's hex is of either case, and what is no id is kept as it was written.
        for (key, value) in rows.iter_mut().flat_map(|row| &mut row.record.attributes) {
            if key.starts_with("watchtower.original_") && key.ends_with("_id") {
                *value = value.to_ascii_lowercase().into();
            }
        }
        prop_assert_eq!(rows, expected(&request));
        prop_assert_eq!((outcome.rejected, outcome.message), (0, None));
    }

    #[test]
    fn what_prost_can_read_so_can_we(
        request in any_request(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut body = request.encode_to_vec();
        for (place, byte) in changes.iter().filter(|_| !request.resource_logs.is_empty()) {
            let place = place.index(body.len());
            body[place] = *byte;
        }
        let ours = run(PROTOBUF, &body);
        if let Ok(request) = ExportLogsServiceRequest::decode(&*body) {
            let (_, rows) = ours.unwrap();
            prop_assert_eq!(rows.len(), num_records(&request));
        }
    }
}
