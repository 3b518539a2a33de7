//! The tables: made once, whoever makes them; changed when the configuration is.

use watchtower::config::{ByteSize, Period};
use watchtower::frame::{COLUMNS, Frame};
use watchtower::store::{Guard, Schema, statements_for};

use crate::support::engine::{TestEngine, query};

#[tokio::test]
async fn daemons_that_start_together_make_the_tables_once() {
    let engine = TestEngine::start().await;
    let (one, two) = (engine.client(), engine.client());
    let schema = Schema::new(&engine.config);
    for _ in 0..2 {
        let (first, second) = tokio::join!(schema.ensure(&one), schema.ensure(&two));
        first.unwrap();
        second.unwrap();
    }
    let applied =
        "SELECT DISTINCT version FROM watchtower.schema_migrations ORDER BY version FORMAT CSV";
    assert_eq!(query(&one, applied).await, "1\n2\n3\n4\n5\n6");
}

#[tokio::test]
async fn table_has_the_columns_of_a_frame_and_what_keeps_data_safe() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let columns = "SELECT name, type FROM system.columns WHERE database = 'watchtower' AND table = 'logs' \
                   ORDER BY position FORMAT TSVRaw";
    let expected: Vec<String> = COLUMNS
        .iter()
        .map(|column| format!("{}\t{}", column.name, column.kind))
        .collect();
    assert_eq!(query(&client, columns).await, expected.join("\n"));
    let table = query(&client, "SHOW CREATE TABLE watchtower.logs FORMAT TSVRaw").await;
    for part in [
        "non_replicated_deduplication_window = 10000",
        "fsync_after_insert = 1",
        "fsync_part_directory = 1",
        "min_bytes_for_wide_part = 268435456",
        "TTL toDateTime(timestamp) + toIntervalSecond(2592000)",
    ] {
        assert!(table.contains(part), "{part} in {table}");
    }
}

#[tokio::test]
async fn printed_statements_are_ones_that_servers_take() {
    let engine = TestEngine::start().await;
    let client = engine.client();
    for version in ["26.7.2.1", "25.8.1.1"] {
        for statement in statements_for(&engine.config, version) {
            client.execute(&statement).await.unwrap();
        }
        client
            .execute("DROP TABLE watchtower.logs SYNC")
            .await
            .unwrap();
        // The writer asks for the tables again when one is gone.
        Schema::new(&engine.config).ensure(&client).await.unwrap();
        assert_eq!(
            query(&client, "SELECT count() FROM watchtower.logs").await,
            "0"
        );
        client
            .execute("DROP TABLE watchtower.logs SYNC")
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn changed_retention_changes_the_table_and_nothing_else_does() {
    let mut engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let version = "SELECT metadata_version, metadata_modification_time FROM system.tables \
                   WHERE database = 'watchtower' AND name = 'logs' FORMAT CSV";
    let before = query(&client, version).await;
    Schema::new(&engine.config).ensure(&client).await.unwrap();
    assert_eq!(query(&client, version).await, before);

    engine.config.retention = Period::days(7);
    Schema::new(&engine.config).ensure(&client).await.unwrap();
    let table = query(&client, "SHOW CREATE TABLE watchtower.logs FORMAT TSVRaw").await;
    assert!(table.contains("toIntervalSecond(604800)"), "{table}");
}

#[tokio::test]
async fn view_has_the_collectors_columns() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let frame = crate::support::records::numbered(0, 1);
    let insert = "INSERT INTO watchtower.logs FORMAT Native";
    let within = std::time::Duration::from_secs(10);
    client
        .insert(insert, &[], [frame.payload()], within)
        .await
        .unwrap();
    let row = "SELECT Timestamp > now64() - 60, TraceId, SeverityText, SeverityNumber, ServiceName, Body, \
               ResourceAttributes['host.name'], ScopeName, LogAttributes['user'], TimestampTime > now() - 60 \
               FROM watchtower.otel_logs FORMAT CSV";
    assert_eq!(
        query(&client, row).await,
        r#"1,"","INFO",9,"checkout","message number 0","box-1","tests","42",1"#
    );
}

/// M-23 and M-28: resource, scope and record are three maps to the Collector's exporter.
#[tokio::test]
async fn view_has_the_attributes_of_scopes_in_a_map_of_their_own() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    client
        .execute(
            "INSERT INTO watchtower.logs (timestamp, attributes, resource) VALUES (now64(9), \
             map('same', 'LOG', 'otel.scope.same', 'SCOPE', 'otel.scope.schema_url', 'su', 'otel.scopes', 'x'), \
             map('same', 'RES', 'otel.resource.schema_url', 'ru'))",
        )
        .await
        .unwrap();
    let row = "SELECT ResourceAttributes, ResourceSchemaUrl, ScopeAttributes, ScopeSchemaUrl, LogAttributes, \
               toTypeName(ScopeAttributes) = toTypeName(LogAttributes) \
               FROM watchtower.otel_logs FORMAT TSV";
    assert_eq!(
        query(&client, row).await,
        "{'same':'RES','otel.resource.schema_url':'ru'}\tru\t{'same':'SCOPE','schema_url':'su'}\tsu\t\
         {'same':'LOG','otel.scopes':'x'}\t1"
    );
}

/// Case: tables and rows as the version before left them, and a frame of that version in the queue.
/// Holds: the tables become the present ones, the rows stay, and frames of both versions go in together.
#[tokio::test]
async fn resources_of_the_version_before_are_kept() {
    let mut engine = TestEngine::start().await;
    // The old frame is of 2023.
    engine.config.retention = Period::days(3650);
    let client = engine.client();
    let (few, plain) = (
        "Map(LowCardinality(String), LowCardinality(String))",
        "Map(LowCardinality(String), String)",
    );
    let old = statements_for(&engine.config, "26.7")
        .into_iter()
        .filter(|statement| !statement.contains("ALTER TABLE"));
    for statement in old {
        let statement = statement.replace(few, plain).replace(
            "resource_values resource.values",
            "resource_bloom mapValues(resource)",
        );
        client.execute(&statement).await.unwrap();
    }
    for statement in [
        "INSERT INTO watchtower.schema_migrations (version, name) SELECT number + 1, 'old' FROM numbers(3)",
        "INSERT INTO watchtower.logs (timestamp, id, message, resource) SELECT now64(9), number, 'old', \
         map('host.name', concat('box-', toString(number))) FROM numbers(1000)",
    ] {
        client.execute(statement).await.unwrap();
    }
    Schema::new(&engine.config).ensure(&client).await.unwrap();
    let kind = "SELECT type FROM system.columns WHERE database = 'watchtower' AND table = 'logs' \
                AND name = 'resource' FORMAT TSVRaw";
    assert_eq!(query(&client, kind).await, few);
    let indexes = "SELECT name FROM system.data_skipping_indices WHERE table = 'logs' AND name LIKE 'resource%' \
                   FORMAT TSVRaw";
    assert_eq!(query(&client, indexes).await, "resource_values");
    let fixture = std::fs::read("tests/fixtures/frame-v1.bin").unwrap();
    let first = Frame::parse(fixture.into()).unwrap();
    let second = crate::support::records::numbered(0, 2);
    let within = std::time::Duration::from_secs(10);
    let insert = "INSERT INTO watchtower.logs FORMAT Native";
    let blocks = [second.payload(), first.payload(), second.payload()];
    client.insert(insert, &[], blocks, within).await.unwrap();
    // A claim that is sent again goes this way, whatever version its frames have.
    let names = COLUMNS.map(|column| column.name).join(", ");
    let structure = COLUMNS.map(|column| format!("{} {}", column.name, column.kind));
    let structure = structure.join(", ").replace('\'', "\\'");
    let again = format!(
        "INSERT INTO watchtower.logs ({names}) SELECT {names} FROM input('{structure}') \
         WHERE id NOT IN (SELECT id FROM watchtower.logs) FORMAT Native"
    );
    let blocks = [first.payload(), second.payload()];
    client.insert(&again, &[], blocks, within).await.unwrap();
    let hosts = "SELECT message = 'old' AS was, count(), uniqExact(resource['host.name']), \
                 countIf(resource['host.name'] = 'box-7'), countIf(resource['host.name'] = 'box-1'), \
                 countIf(resource['host.name'] = 'web-1') \
                 FROM watchtower.logs GROUP BY was ORDER BY was FORMAT CSV";
    // The old frame has two records of the host web-1, and one without a resource.
    assert_eq!(
        query(&client, hosts).await,
        "0,7,3,0,4,2\n1,1000,1000,1,1,0"
    );
    let settled =
        "SELECT count() FROM system.mutations WHERE database = 'watchtower' AND NOT is_done";
    for _ in 0..100 {
        if query(&client, settled).await == "0" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(query(&client, settled).await, "0");
    assert_eq!(
        query(&client, hosts).await,
        "0,7,3,0,4,2\n1,1000,1000,1,1,0"
    );
    let failed = "SELECT count() FROM system.mutations WHERE database = 'watchtower' AND latest_fail_reason != ''";
    assert_eq!(query(&client, failed).await, "0");
}

/// Case: a part that was merged, and a young one, which has no indexes yet.
/// Holds: they are merged: nothing that only merges make keeps parts apart.
#[tokio::test]
async fn parts_of_every_age_can_be_merged() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    for round in 1..=3 {
        for number in 0..2 {
            let insert = format!(
                "INSERT INTO watchtower.logs (timestamp, id, message, attributes, resource) \
                 SELECT now64(9), {round}{number}000 + number, 'm', map('k', 'v'), map('host.name', 'h') FROM numbers(100) \
                 SETTINGS exclude_materialize_skip_indexes_on_insert = \
                 'message_words, trace_id_bloom, attribute_values, resource_values'"
            );
            client.execute(&insert).await.unwrap();
        }
        client
            .execute("OPTIMIZE TABLE watchtower.logs FINAL SETTINGS optimize_throw_if_noop = 1")
            .await
            .unwrap();
        let parts = "SELECT uniqExact(partition), count(), sum(rows) FROM system.parts \
                     WHERE database = 'watchtower' AND table = 'logs' AND active FORMAT TSV";
        let parts = query(&client, parts).await;
        let numbers: Vec<u64> = parts
            .split('\t')
            .map(|number| number.parse().unwrap())
            .collect();
        // The day may change meanwhile.
        assert_eq!(
            (numbers[0], numbers[2]),
            (numbers[1], round * 200),
            "{parts}"
        );
    }
}

/// Case: levels and services with times of their own, names that want escaping among them.
/// Holds: each record goes when its time is over and no other does; the tables are not changed again when
/// the daemon comes back, and are whole parts again once there are no exceptions.
#[tokio::test]
async fn records_with_a_retention_of_their_own_go_by_it() {
    let mut engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    engine.config.retention_except = ["level:debug 3d", "service:audit 90d", "service:it's \\ 1d"]
        .map(|text| text.parse().unwrap())
        .to_vec();
    Schema::new(&engine.config).ensure(&client).await.unwrap();
    let created = "SHOW CREATE TABLE watchtower.logs FORMAT TSVRaw";
    let table = query(&client, created).await;
    assert!(table.contains("ttl_only_drop_parts = 0"), "{table}");
    // A change would be a mutation of the metadata; the version of the table tells.
    let version = "SELECT metadata_modification_time FROM system.tables WHERE name = 'logs' AND database = 'watchtower'";
    let before = query(&client, version).await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    Schema::new(&engine.config).ensure(&client).await.unwrap();
    assert_eq!(query(&client, version).await, before);
    for (level, service, days) in [
        ("info", "web", 2),
        ("info", "web", 29),
        ("info", "web", 31),
        ("debug", "web", 2),
        ("debug", "web", 4),
        ("info", "audit", 60),
        ("info", "audit", 91),
        ("debug", "audit", 4),
        ("info", "it\\'s \\\\", 2),
    ] {
        let insert = format!(
            "INSERT INTO watchtower.logs (timestamp, level, service) SELECT now() - INTERVAL {days} DAY, '{level}', '{service}'"
        );
        client.execute(&insert).await.unwrap();
    }
    client
        .execute("ALTER TABLE watchtower.logs MATERIALIZE TTL SETTINGS mutations_sync = 2")
        .await
        .unwrap();
    let left = "SELECT level, service, dateDiff('day', timestamp, now()) FROM watchtower.logs ORDER BY timestamp DESC, level FORMAT CSV";
    assert_eq!(
        query(&client, left).await,
        "\"debug\",\"web\",2\n\"info\",\"web\",2\n\"info\",\"web\",29\n\"info\",\"audit\",60"
    );
    engine.config.retention_except.clear();
    Schema::new(&engine.config).ensure(&client).await.unwrap();
    let table = query(&client, created).await;
    assert!(table.contains("ttl_only_drop_parts = 1"), "{table}");
    assert!(table.contains("toIntervalSecond(2592000)"), "{table}");
}

/// Case: three days of records, a bound that the store is over, and then a floor that no disk has.
/// Holds: the oldest days go, today's stays; what went is counted.
#[tokio::test]
async fn the_oldest_days_make_room() {
    let mut engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    for days in [0, 1, 2, 3] {
        let insert = format!(
            "INSERT INTO watchtower.logs (timestamp, id, message) SELECT now() - INTERVAL {days} DAY, number, \
             randomPrintableASCII(100) FROM numbers(1000)"
        );
        client.execute(&insert).await.unwrap();
    }
    let left = async || query(&client, "SELECT count() FROM watchtower.logs").await;
    let bytes = "SELECT sum(bytes_on_disk) FROM system.parts WHERE database = 'watchtower' AND table = 'logs' AND active";
    let bytes: u64 = query(&client, bytes).await.parse().unwrap();
    engine.config.store.min_free = ByteSize::bytes(0);
    engine.config.store.max_disk = ByteSize::bytes(bytes);
    let mut guard = Guard::new(client.clone(), &engine.config);
    guard.look().await.unwrap();
    assert_eq!(left().await, "4000");
    engine.config.store.max_disk = ByteSize::bytes(bytes - bytes / 3);
    let mut guard = Guard::new(client.clone(), &engine.config);
    guard.look().await.unwrap();
    assert_eq!(left().await, "2000");
    let status = *guard.status().borrow();
    assert_eq!((status.dropped_days, status.dropped_records), (2, 2000));
    engine.config.store.max_disk = ByteSize::bytes(0);
    engine.config.store.min_free = ByteSize::bytes(1 << 60);
    let mut guard = Guard::new(client.clone(), &engine.config);
    guard.look().await.unwrap();
    assert_eq!(left().await, "1000");
}
