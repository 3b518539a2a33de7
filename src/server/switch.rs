//! Routes that can be exchanged while connections are open: each request takes those of its moment.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Map};
use tokio::sync::watch;
use tower::{Service, ServiceExt as _};

/// Answers a request, or gives it back for the routes.
pub type Quick =
    Arc<dyn Fn(Request, SocketAddr) -> Result<BoxFuture<'static, Response>, Request> + Send + Sync>;

/// What answers requests.
#[derive(Clone)]
pub struct Routes {
    /// Asked first; a router's way to a handler costs more than some handlers.
    quick: Option<Quick>,
    router: Router,
}

impl Routes {
    /// Routes, of which `quick` is asked first.
    #[must_use]
    pub fn new(router: Router, quick: Quick) -> Routes {
        Routes {
            quick: Some(quick),
            router,
        }
    }
}

impl From<Router> for Routes {
    fn from(router: Router) -> Routes {
        Routes {
            quick: None,
            router,
        }
    }
}

/// The routes that were set last. Cheap to clone; all clones follow.
#[derive(Clone)]
pub struct Switch {
    routes: Arc<watch::Sender<Routes>>,
}

impl Switch {
    /// Begins with these routes.
    #[must_use]
    pub fn new(routes: impl Into<Routes>) -> Switch {
        Switch {
            routes: Arc::new(watch::Sender::new(routes.into())),
        }
    }

    /// Has every request from now on, also on open connections, take other routes.
    pub fn set(&self, routes: impl Into<Routes>) {
        drop(self.routes.send_replace(routes.into()));
    }

    /// Serves the requests of one connection.
    pub(super) fn serve(self, peer: SocketAddr) -> Peer {
        Peer { switch: self, peer }
    }
}

/// The service of one connection.
#[derive(Clone)]
pub(super) struct Peer {
    switch: Switch,
    peer: SocketAddr,
}

impl<B> Service<Request<B>> for Peer
where
    B: axum::body::HttpBody<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Map<BoxFuture<'static, Response>, fn(Response) -> Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut request = request.map(Body::new);
        let router = {
            let routes = self.switch.routes.borrow();
            if let Some(quick) = &routes.quick {
                match quick(request, self.peer) {
                    Ok(answer) => return answer.map(Ok),
                    Err(back) => request = back,
                }
            }
            routes.router.clone()
        };
        request.extensions_mut().insert(ConnectInfo(self.peer));
        let answer = router.oneshot(request);
        let answer: BoxFuture<'static, Response> = Box::pin(answer.map(|answer| match answer {
            Ok(answer) => answer,
            Err(never) => match never {},
        }));
        answer.map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;

    use super::*;

    #[tokio::test]
    async fn a_request_takes_the_routes_of_its_moment() {
        let switch = Switch::new(Router::new().route("/", get(async || "old")));
        let ask = async || {
            let request = Request::builder().body(Body::empty()).unwrap();
            let peer = SocketAddr::from(([127, 0, 0, 1], 9));
            let answer = switch.clone().serve(peer).oneshot(request).await.unwrap();
            axum::body::to_bytes(answer.into_body(), 100).await.unwrap()
        };
        assert_eq!(ask().await, "old");
        switch.set(Router::new().route("/", get(async || "new")));
        assert_eq!(ask().await, "new");
    }
}
