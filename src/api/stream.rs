//! `GET /api/logs/stream`: the live view as Server-Sent Events.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{ConnectInfo, Query, Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::future::{BoxFuture, Shared};
use futures_util::{FutureExt, StreamExt};
use http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};

use tokio::sync::watch;

use super::auth::may_read;
use super::params::Params;
use super::{ApiError, ApiState, ClientAddress};
use crate::config::Secret;
use crate::live::{SeatsFull, Subscribe};

const DEFAULT_BACKLOG: usize = 200;
const MAX_BACKLOG: usize = 5_000;
const DEFAULT_RATE: usize = 10_000;
/// More than any one stream was ever measured to carry.
const MAX_RATE: usize = 1_000_000;
const KNOWN: [&str; 5] = ["backlog", "after", "rate", "v", "probe"];

pub(super) async fn get(
    State(state): State<ApiState>,
    Query(pairs): Query<Vec<(String, String)>>,
    request: Request,
) -> Result<Response, ApiError> {
    let params = Params::new(pairs, &KNOWN)?;
    if params.get("v").is_some_and(|version| version != "1") {
        return Err(ApiError::bad_request(
            "this daemon speaks version 1 of the stream",
        ));
    }
    let subscribe = read(&params, request.headers())?;
    let seat = state
        .seats
        .take(client(request.headers(), request.extensions()));
    let seat = seat.map_err(|full| too_many(&full))?;
    let viewer = state.hub.subscribe(subscribe).seated(seat);
    let mut response = if params.get("probe").is_some_and(|probe| probe != "0") {
        Json(viewer.hello()).into_response()
    } else {
        let signed_out = signed_out(state.read_tokens.clone(), request.headers().clone());
        let stream = viewer.into_stream().take_until(signed_out.clone());
        let farewell = futures_util::stream::once(async move {
            let is_signed_out = signed_out.peek().is_some();
            is_signed_out.then(|| crate::live::bye("auth"))
        });
        let stream = stream.chain(farewell.filter_map(futures_util::future::ready));
        let stream = stream.map(Ok::<_, Infallible>);
        let mut response = Body::from_stream(stream).into_response();
        let content_type = HeaderValue::from_static("text/event-stream");
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
        response
    };
    let headers = response.headers_mut();
    // nginx and others pass on at once what they would gather; nobody may compress or change it.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-store, no-transform"),
    );
    Ok(response)
}

/// Resolves once the token that let these headers in is none any more.
fn signed_out(
    mut tokens: watch::Receiver<Arc<[Secret]>>,
    headers: HeaderMap,
) -> Shared<BoxFuture<'static, ()>> {
    let changed = async move {
        let lost = tokens.wait_for(|tokens| !may_read(&headers, tokens));
        if lost.await.is_err() {
            // The daemon is ending, which the hub tells.
            std::future::pending::<()>().await;
        }
    };
    changed.boxed().shared()
}

fn read(params: &Params, headers: &HeaderMap) -> Result<Subscribe, ApiError> {
    // What the browser remembers is newer than what the URL was made with.
    let last_event_id = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let after = last_event_id
        .filter(|id| !id.is_empty())
        .or(params.get("after"));
    let rate = params.number("rate", DEFAULT_RATE, 1..=MAX_RATE)?;
    Ok(Subscribe {
        query: params.query()?,
        rate: u32::try_from(rate).unwrap_or(u32::MAX),
        backlog: params.number("backlog", DEFAULT_BACKLOG, 0..=MAX_BACKLOG)?,
        after: after.map(str::to_owned),
    })
}

/// Whose seat a stream takes. Behind a proxy on this machine it is the proxy's client.
fn client(headers: &HeaderMap, extensions: &Extensions) -> IpAddr {
    let connection = extensions.get::<ConnectInfo<SocketAddr>>();
    let address = match (extensions.get::<ClientAddress>(), connection) {
        (Some(address), _) => address.0,
        (None, Some(connection)) => connection.0.ip(),
        (None, None) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    crate::server::asking(address, headers)
}

fn too_many(full: &SeatsFull) -> ApiError {
    let error = ApiError::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_viewers",
        full.to_string(),
    );
    error.hint("close a live view elsewhere").retry_after(10)
}
