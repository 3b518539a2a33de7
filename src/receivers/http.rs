//! OTLP over HTTP: `POST /v1/logs`, protobuf and JSON.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, Version};
use axum::response::Response;

use super::Door;
use super::caller::{self, Caller, Form};
use super::coding::Coding;
use super::decode::{self, Outcome};
use super::encoding::{Encoding, is_grpc};
use super::paths;
use super::reply::Reject;
use super::response;
use crate::record::Receiver;

pub(super) async fn export(State(door): State<Arc<Door>>, request: Request) -> Response {
    let peer = caller::peer(request.extensions());
    answer(&door, request, peer).await
}

pub(super) async fn answer(door: &Door, request: Request, peer: Option<SocketAddr>) -> Response {
    let (parts, mut body) = request.into_parts();
    if is_grpc(&parts.headers) && parts.version >= Version::HTTP_2 {
        let caller = Caller::new(Receiver::OtlpGrpc, Form::Grpc, &parts.headers, peer);
        let reject = Reject::Path(paths::no_method(parts.uri.path()));
        return door
            .refuse(&caller, reject, &parts.headers, &mut body)
            .await;
    }
    let encoding = Encoding::of_answer(&parts.headers);
    let form = Form::Http(encoding);
    let caller = Caller::new(Receiver::OtlpHttp, form, &parts.headers, peer);
    match call(door, &parts, &mut body).await {
        Ok(outcome) => {
            door.accepted(&caller, &outcome);
            response::http(encoding, &outcome)
        }
        Err(reject) => {
            door.refuse(&caller, reject, &parts.headers, &mut body)
                .await
        }
    }
}

async fn call(door: &Door, parts: &Parts, body: &mut Body) -> Result<Outcome, Reject> {
    if parts.method != Method::POST {
        return Err(Reject::Method(door.methods()));
    }
    door.check_token(&parts.headers)?;
    let encoding = Encoding::of(&parts.headers)?;
    let coding = Coding::of(&parts.headers)?;
    let receiver = Receiver::OtlpHttp;
    let (bytes, permit) = door.read(receiver, &parts.headers, body, coding).await?;
    let walk = match encoding {
        Encoding::Protobuf => decode::decode_protobuf,
        Encoding::Json => decode::decode_json,
    };
    let identity = door.by_bytes(&parts.headers);
    door.take(receiver, identity, bytes, permit, Duration::MAX, walk)
        .await
}
