//! What the indexes on attributes' values spare a search.

use std::time::Duration;

use watchtower::query::Query;
use watchtower::store::Client;

use crate::support::engine::TestEngine;

/// Granules that are read, and all there are, for a query.
async fn granules(client: &Client, text: &str) -> (u64, u64) {
    let mut params = Vec::new();
    let condition = Query::parse(text).unwrap().sql(&mut params);
    let sql = format!("EXPLAIN indexes = 1 SELECT id FROM watchtower.logs AS l WHERE {condition}");
    let within = Duration::from_secs(30);
    let plan = client.select(&sql, &[], &params, within).await.unwrap();
    let plan = String::from_utf8(plan.to_vec()).unwrap();
    let (_, last) = plan.rsplit_once("Granules: ").unwrap();
    let (read, all) = last.lines().next().unwrap().split_once('/').unwrap();
    (read.parse().unwrap(), all.parse().unwrap())
}

async fn count(client: &Client, text: &str) -> String {
    let mut params = Vec::new();
    let condition = Query::parse(text).unwrap().sql(&mut params);
    let sql = format!("SELECT count() FROM watchtower.logs AS l WHERE {condition}");
    let within = Duration::from_secs(30);
    let count = client.select(&sql, &[], &params, within).await.unwrap();
    String::from_utf8_lossy(&count).trim().to_owned()
}

/// Case: 300,000 records in a merged part, each with an order of its own and one of three hosts.
/// Holds: a value that one record has, or none, is found in a few granules, wherever it is looked for;
/// what is left out or compared is found all the same.
#[tokio::test]
async fn a_rare_value_of_an_attribute_is_found_by_the_index() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let fill = "INSERT INTO watchtower.logs (timestamp, id, message, attributes, resource)
        SELECT now64(9), number, 'x', map('order.id', 'o-' || number, 'empty', ''), \
        map('host.name', 'node-' || (number % 3)) FROM numbers(300000)
        SETTINGS exclude_materialize_skip_indexes_on_insert = 'message_words, trace_id_bloom, attribute_values, resource_values'";
    client.execute(fill).await.unwrap();
    let all = granules(&client, "order.id:o-77").await.1;
    assert!(all > 30, "{all}");
    let merge = "OPTIMIZE TABLE watchtower.logs FINAL";
    client.execute(merge).await.unwrap();
    for (text, found) in [
        ("order.id:o-77", "1"),
        ("order.id:(o-77 OR o-250001 OR nowhere)", "2"),
        ("attributes.order.id:o-299999", "1"),
        ("order.id:nowhere", "0"),
        ("no.such.key:nothing", "0"),
        ("resource.host.name:node-9", "0"),
        ("order.id:o-77 host.name:node-2", "1"),
    ] {
        assert_eq!(count(&client, text).await, found, "{text}");
        let (read, of) = granules(&client, text).await;
        assert!(read <= 6 && of == all, "{text}: {read} of {of}");
    }
    for (text, found) in [
        ("-order.id:o-77", "299999"),
        ("host.name:node-1", "100000"),
        ("-host.name:node-1", "200000"),
        ("-(order.id:o-77 OR -host.name:node-2)", "99999"),
        ("empty:\"\"", "300000"),
        ("other:\"\"", "0"),
        ("order.id:o-7*", "11111"),
    ] {
        assert_eq!(count(&client, text).await, found, "{text}");
    }
}
