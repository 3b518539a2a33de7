//! What docs/clients.md claims.

use std::collections::BTreeSet;

use super::{collector, sdk};

const PAGE: &str = include_str!("../../../docs/clients.md");

/// A row of the table: client, transport, encoding, compression.
type Row = [String; 4];

fn row(client: &str, protocol: &str, compression: &str) -> Row {
    let (transport, encoding) = match protocol {
        "grpc" => ("gRPC", "protobuf"),
        "http/json" => ("HTTP", "JSON"),
        _ => ("HTTP", "protobuf"),
    };
    [client, transport, encoding, compression].map(str::to_owned)
}

/// The rows of the table, one for each compression that a line of it names.
fn documented() -> BTreeSet<Row> {
    let lines = PAGE.lines().filter(|line| line.ends_with("| yes | yes |"));
    lines
        .flat_map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let [_, client, transport, encoding, compressions, ..] = cells.as_slice() else {
                panic!("a row has more cells: {line}")
            };
            let row = [client, transport, encoding].map(|cell| (*cell).to_owned());
            let compressions = compressions.split(", ").map(str::to_owned);
            compressions
                .map(|compression| {
                    let [client, transport, encoding] = row.clone();
                    [client, transport, encoding, compression]
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Case: the table of clients in the documentation, against what the tests of this folder run.
/// Holds: it claims what is tested, all of it, and nothing else.
#[test]
fn the_table_of_clients_is_what_is_tested() {
    let mut tested = BTreeSet::new();
    for sdk in sdk::ALL {
        for protocol in sdk.protocols {
            tested
                .extend(sdk::COMPRESSIONS.map(|compression| row(sdk.name, protocol, compression)));
        }
    }
    for way in collector::WAYS {
        let compressions = way.compressions.iter();
        tested.extend(compressions.map(|compression| row("Collector", way.protocol, compression)));
    }
    tested.insert(["curl", "HTTP", "plain JSON", "none"].map(str::to_owned));
    assert_eq!(documented(), tested);
}
