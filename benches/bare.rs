//! The limit of the HTTP stack: handlers that read a request whole, parse it, and throw it away.
//!
//! axum for `POST /api/logs` (one JSON value) and `POST /v1/logs` (OTLP protobuf), tonic for OTLP over gRPC; the same crates in the same versions as the daemon's. `scripts/bench --peers` runs it
//! beside the daemon: what the daemon does more than this is what durability and the queue cost.

use std::net::SocketAddr;

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::routing::post;
use axum::serve::ListenerExt;
use clap::Parser;
use http::StatusCode;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{
    LogsService, LogsServiceServer,
};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use prost::Message;
use tokio::net::TcpListener;
use tonic::codec::CompressionEncoding;
use tonic::{Request, Response, Status};

const LARGEST: usize = 64 << 20;

/// Parses log records and throws them away.
#[derive(Parser)]
struct Args {
    /// Address for OTLP over gRPC, host:port.
    #[arg(long)]
    grpc: SocketAddr,
    /// Address for JSON and for OTLP over HTTP, host:port.
    #[arg(long)]
    http: SocketAddr,
}

struct Parse;

#[tonic::async_trait]
impl LogsService for Parse {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        drop(std::hint::black_box(request.into_inner()));
        Ok(Response::new(ExportLogsServiceResponse::default()))
    }
}

async fn json(body: Bytes) -> StatusCode {
    match serde_json::from_slice::<serde_json::Value>(&body) {
        Ok(value) => {
            drop(std::hint::black_box(value));
            StatusCode::OK
        }
        Err(_) => StatusCode::BAD_REQUEST,
    }
}

async fn protobuf(body: Bytes) -> StatusCode {
    match ExportLogsServiceRequest::decode(body) {
        Ok(request) => {
            drop(std::hint::black_box(request));
            StatusCode::OK
        }
        Err(_) => StatusCode::BAD_REQUEST,
    }
}

async fn listen(address: SocketAddr) -> Result<impl axum::serve::Listener<Addr = SocketAddr>> {
    let listener = TcpListener::bind(address).await?;
    Ok(listener.tap_io(|stream| drop(stream.set_nodelay(true))))
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let service = LogsServiceServer::new(Parse)
        .max_decoding_message_size(LARGEST)
        .accept_compressed(CompressionEncoding::Gzip);
    let routes = Router::new()
        .route("/api/logs", post(json))
        .route("/v1/logs", post(protobuf))
        .layer(DefaultBodyLimit::max(LARGEST));
    let grpc = tonic::service::Routes::new(service).into_axum_router();
    let http = axum::serve(listen(args.http).await?, routes);
    let grpc = axum::serve(listen(args.grpc).await?, grpc);
    tokio::select! {
        ended = http.into_future() => ended?,
        ended = grpc.into_future() => ended?,
    }
    Ok(())
}
