//! The page's own files, compiled in. No other host is ever asked for anything.

use std::collections::HashMap;
use std::io::Write;
use std::sync::LazyLock;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Nothing but the page's own files, no markup made from text, nobody's frame.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data:; worker-src 'self'; base-uri 'none'; \
    form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types watchtower";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const ICON: &str = "image/svg+xml";

struct Asset {
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal: $content_type:expr,)*) => {
        &[$(Asset {
            name: $name,
            content_type: $content_type,
            bytes: include_bytes!(concat!("page/", $name)),
        }),*]
    };
}

static ASSETS: &[Asset] = assets! {
    "index.html": HTML,
    "style.css": STYLE,
    "search.css": STYLE,
    "icon.svg": ICON,
    "ansi.js": SCRIPT,
    "app.js": SCRIPT,
    "columns.js": SCRIPT,
    "complete.js": SCRIPT,
    "connection.js": SCRIPT,
    "context.js": SCRIPT,
    "copy.js": SCRIPT,
    "detail.js": SCRIPT,
    "dom.js": SCRIPT,
    "empty.js": SCRIPT,
    "export.js": SCRIPT,
    "facets.js": SCRIPT,
    "figures.js": SCRIPT,
    "find.js": SCRIPT,
    "heights.js": SCRIPT,
    "histogram.js": SCRIPT,
    "history.js": SCRIPT,
    "keys.js": SCRIPT,
    "list.js": SCRIPT,
    "look.js": SCRIPT,
    "panels.js": SCRIPT,
    "place.js": SCRIPT,
    "pretty.js": SCRIPT,
    "query-box.js": SCRIPT,
    "query-text.js": SCRIPT,
    "range.js": SCRIPT,
    "ring.js": SCRIPT,
    "row.js": SCRIPT,
    "search.js": SCRIPT,
    "seats.js": SCRIPT,
    "status.js": SCRIPT,
    "settings.js": SCRIPT,
    "shared.js": SCRIPT,
    "source.js": SCRIPT,
    "store.js": SCRIPT,
    "text.js": SCRIPT,
    "time.js": SCRIPT,
    "tree.js": SCRIPT,
    "typed-time.js": SCRIPT,
    "understood.js": SCRIPT,
    "values.js": SCRIPT,
    "view.js": SCRIPT,
    "views.js": SCRIPT,
    "words.js": SCRIPT,
    "worker.js": SCRIPT,
    "zone.js": SCRIPT,
};

/// The files as gzip, by their names; made when the first is asked for.
static PACKED: LazyLock<HashMap<&str, Vec<u8>>> = LazyLock::new(|| {
    let packed = ASSETS.iter().map(|asset| (asset.name, pack(asset.bytes)));
    packed.collect()
});

static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = Xxh3::new();
    for asset in ASSETS {
        hasher.update(asset.bytes);
    }
    format!("{:016x}", hasher.digest())
});

/// Names the page's files as a whole, so that an open page can tell that it is out of date.
#[must_use]
pub fn version() -> &'static str {
    &VERSION
}

/// The page at `/` and its files beside it.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let file = |asset: &'static Asset| {
        get(move |headers: HeaderMap| async move { serve(asset, &headers) })
    };
    ASSETS.iter().fold(Router::new(), |router, asset| {
        let path = match asset.name {
            "index.html" => "/".to_owned(),
            name => format!("/{name}"),
        };
        router.route(&path, file(asset))
    })
}

fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
    packed.expect("memory takes all that is written")
}

/// Whether the asker takes gzip; one that refuses it by `q=0` says so in a way that nobody uses.
fn takes_gzip(request: &HeaderMap) -> bool {
    let accepted = request.get_all(header::ACCEPT_ENCODING).iter();
    let mut codings = accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    codings.any(|coding| coding.split(';').next().map(str::trim) == Some("gzip"))
}

fn serve(asset: &'static Asset, request: &HeaderMap) -> Response {
    let etag = format!("\"{:016x}\"", xxh3_64(asset.bytes));
    let is_known = request
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|known| known.trim().trim_start_matches("W/") == etag);
    let packed = PACKED.get(asset.name).filter(|_| takes_gzip(request));
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else if let Some(packed) = packed {
        packed.as_slice().into_response()
    } else {
        asset.bytes.into_response()
    };
    let headers = response.headers_mut();
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, asset.content_type);
    set(header::VARY, "accept-encoding");
    if packed.is_some() && !is_known {
        set(header::CONTENT_ENCODING, "gzip");
    }
    set(header::CACHE_CONTROL, "no-cache");
    set(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "no-referrer");
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(header::ETAG, etag);
    }
    response
}
