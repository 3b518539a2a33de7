//! `watchtower send`: one log through any of the three doors, to try them.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use tonic::transport::{ClientTlsConfig, Endpoint};

use super::ConfigArgs;
use super::address::{self, Door};
use super::client::{Client, IdentityArgs, PROTOBUF, authorization, secret};
use crate::config::Secret;
use crate::record::Level;
use crate::trust::Identity;

/// The door to send through.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Via {
    /// OTLP over gRPC, port 4317
    Grpc,
    /// OTLP over HTTP (protobuf), port 4318
    Http,
    /// Plain JSON, port 4319
    Json,
}

#[derive(Debug, Args)]
pub(super) struct SendArgs {
    /// The message
    message: String,
    /// Service that sends it
    #[arg(long, short, default_value = "watchtower-send", value_name = "NAME")]
    service: String,
    /// Level: trace, debug, info, warn, error or fatal
    #[arg(long, short, default_value = "info", value_parser = level)]
    level: Level,
    /// Environment
    #[arg(
        long,
        short,
        default_value = "",
        hide_default_value = true,
        value_name = "NAME"
    )]
    environment: String,
    /// One attribute; may be given several times
    #[arg(long = "attribute", short = 'a', value_name = "KEY=VALUE", value_parser = attribute)]
    attributes: Vec<(String, String)>,
    /// The door to send it through
    #[arg(long, value_enum, default_value = "json")]
    via: Via,
    /// Where to send it [default: the door's address as the configuration in use says, else its usual
    /// port on this machine]
    #[arg(long, env = "WATCHTOWER_URL")]
    url: Option<String>,
    /// Ingest token, if the daemon asks for one
    #[arg(long, env = "WATCHTOWER_TOKEN", hide_env_values = true, value_parser = secret)]
    token: Option<Secret>,
    #[command(flatten)]
    identity: IdentityArgs,
}

fn level(text: &str) -> Result<Level, String> {
    let level = Level::from_name(&text.to_ascii_lowercase());
    level
        .filter(|level| *level != Level::Unspecified)
        .ok_or_else(|| "write trace, debug, info, warn, error or fatal".to_owned())
}

fn attribute(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

pub(super) async fn run(args: SendArgs, source: &ConfigArgs) -> anyhow::Result<ExitCode> {
    let door = match args.via {
        Via::Grpc => Door::Grpc,
        Via::Http => Door::Http,
        Via::Json => Door::Web,
    };
    let url = address::url(args.url.as_deref(), source, door)?;
    let answer = match args.via {
        Via::Grpc => send_grpc(&args, &url).await?,
        Via::Http => send_http(&args, &url).await?,
        Via::Json => send_json(&args, &url).await?,
    };
    writeln!(std::io::stdout().lock(), "{url} answers: {answer}")?;
    Ok(ExitCode::SUCCESS)
}

async fn send_grpc(args: &SendArgs, url: &str) -> anyhow::Result<String> {
    let mut endpoint = Endpoint::from_shared(url.to_owned())
        .with_context(|| format!("--url {url} is not a URL"))?;
    if url.starts_with("https:") {
        let mut tls = ClientTlsConfig::new().with_native_roots();
        if let Some(Identity { certificate, key }) = args.identity.identity() {
            let read = |path: &Path| {
                std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
            };
            tls = tls.identity(tonic::transport::Identity::from_pem(
                read(&certificate)?,
                read(&key)?,
            ));
        }
        endpoint = endpoint.tls_config(tls)?;
    }
    let channel = endpoint.connect().await.with_context(|| {
        format!(
            "cannot reach {url}; is the daemon running, and is this its port for OTLP over gRPC?"
        )
    })?;
    let mut request = tonic::Request::new(otlp(args));
    if let Some(header) = authorization(args.token.as_ref())? {
        let value = tonic::metadata::AsciiMetadataValue::try_from(header.as_bytes())?;
        request.metadata_mut().insert("authorization", value);
    }
    match LogsServiceClient::new(channel).export(request).await {
        Ok(response) => outcome(response.into_inner().partial_success),
        Err(status) => bail!("{url} answers {:?}: {}", status.code(), status.message()),
    }
}

async fn send_http(args: &SendArgs, url: &str) -> anyhow::Result<String> {
    let client = Client::new(url, args.token.as_ref(), &args.identity)?;
    let body = otlp(args).encode_to_vec().into();
    let (_, body) = client.post("/v1/logs", PROTOBUF, body).await?;
    let response = ExportLogsServiceResponse::decode(body).context("the answer is not OTLP")?;
    outcome(response.partial_success)
}

async fn send_json(args: &SendArgs, url: &str) -> anyhow::Result<String> {
    let client = Client::new(url, args.token.as_ref(), &args.identity)?;
    let body = json(args).to_string().into();
    let (status, body) = client.post("/api/logs", "application/json", body).await?;
    Ok(format!(
        "{status} {}",
        String::from_utf8_lossy(&body).trim()
    ))
}

/// What an OTLP answer says of one record.
fn outcome(partial: Option<ExportLogsPartialSuccess>) -> anyhow::Result<String> {
    match partial {
        Some(partial) if partial.rejected_log_records > 0 => {
            bail!("the record was refused: {}", partial.error_message)
        }
        Some(partial) if !partial.error_message.is_empty() => Ok(format!(
            "1 record accepted, with a warning: {}",
            partial.error_message
        )),
        _ => Ok("1 record accepted".to_owned()),
    }
}

fn json(args: &SendArgs) -> serde_json::Value {
    let mut record = serde_json::Map::new();
    for (key, value) in &args.attributes {
        record.insert(key.clone(), value.as_str().into());
    }
    record.insert("message".to_owned(), args.message.as_str().into());
    record.insert("level".to_owned(), args.level.as_str().into());
    record.insert("service".to_owned(), args.service.as_str().into());
    if !args.environment.is_empty() {
        record.insert("environment".to_owned(), args.environment.as_str().into());
    }
    serde_json::Value::Object(record)
}

fn otlp(args: &SendArgs) -> ExportLogsServiceRequest {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let now = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
    let mut resource = vec![key_value("service.name", &args.service)];
    if !args.environment.is_empty() {
        resource.push(key_value("deployment.environment.name", &args.environment));
    }
    // The first number of each level's range of four, as the specification has it.
    let severity_number = (args.level as i32 - 1) * 4 + 1;
    let record = LogRecord {
        time_unix_nano: now,
        observed_time_unix_nano: now,
        severity_number,
        severity_text: args.level.as_str().to_ascii_uppercase(),
        body: Some(text(&args.message)),
        attributes: args
            .attributes
            .iter()
            .map(|(key, value)| key_value(key, value))
            .collect(),
        ..LogRecord::default()
    };
    ExportLogsServiceRequest {
        resource_logs: vec![ResourceLogs {
            resource: Some(Resource {
                attributes: resource,
                ..Resource::default()
            }),
            scope_logs: vec![ScopeLogs {
                scope: Some(InstrumentationScope {
                    name: "watchtower.send".to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    ..InstrumentationScope::default()
                }),
                log_records: vec![record],
                ..ScopeLogs::default()
            }],
            ..ResourceLogs::default()
        }],
    }
}

fn text(value: &str) -> AnyValue {
    AnyValue {
        value: Some(Value::StringValue(value.to_owned())),
    }
}

fn key_value(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(text(value)),
        ..KeyValue::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> SendArgs {
        SendArgs {
            message: "hello".to_owned(),
            service: "shop".to_owned(),
            level: Level::Fatal,
            environment: "prod".to_owned(),
            attributes: vec![
                ("level".to_owned(), "x".to_owned()),
                ("user".to_owned(), "7".to_owned()),
            ],
            via: Via::Json,
            url: None,
            token: None,
            identity: IdentityArgs::default(),
        }
    }

    #[test]
    fn the_levels_have_their_severity_numbers() {
        for (name, number) in [
            ("trace", 1),
            ("debug", 5),
            ("info", 9),
            ("WARN", 13),
            ("error", 17),
            ("fatal", 21),
        ] {
            let args = SendArgs {
                level: level(name).unwrap(),
                ..args()
            };
            let request = otlp(&args);
            let record = &request.resource_logs[0].scope_logs[0].log_records[0];
            assert_eq!(record.severity_number, number, "{name}");
        }
        assert!(level("loud").is_err());
        assert!(level("unspecified").is_err());
    }

    #[test]
    fn attributes_do_not_displace_fields() {
        let json = json(&args());
        assert_eq!(json["level"], "fatal");
        assert_eq!(json["user"], "7");
        assert_eq!(
            attribute("a=b=c").unwrap(),
            ("a".to_owned(), "b=c".to_owned())
        );
        assert!(attribute("=x").is_err());
    }

    #[test]
    fn a_refused_record_is_an_error() {
        assert_eq!(outcome(None).unwrap(), "1 record accepted");
        let refused = ExportLogsPartialSuccess {
            rejected_log_records: 1,
            error_message: "too old".to_owned(),
        };
        assert_eq!(
            outcome(Some(refused)).unwrap_err().to_string(),
            "the record was refused: too old"
        );
    }
}
