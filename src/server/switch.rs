//! Routes that can be exchanged while connections are open: each request takes those of its moment.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tower::{Service, ServiceExt as _};

/// A service of the routes that were set last. Cheap to clone; all clones follow.
#[derive(Clone)]
pub struct Switch {
    routes: Arc<watch::Sender<Router>>,
}

impl Switch {
    /// Begins with these routes.
    #[must_use]
    pub fn new(routes: Router) -> Switch {
        Switch {
            routes: Arc::new(watch::Sender::new(routes)),
        }
    }

    /// Has every request from now on, also on open connections, take other routes.
    pub fn set(&self, routes: Router) {
        drop(self.routes.send_replace(routes));
    }
}

impl<B> Service<Request<B>> for Switch
where
    B: axum::body::HttpBody<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let routes = self.routes.borrow().clone();
        Box::pin(routes.oneshot(request.map(Body::new)))
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
            let answer = switch.clone().oneshot(request).await.unwrap();
            axum::body::to_bytes(answer.into_body(), 100).await.unwrap()
        };
        assert_eq!(ask().await, "old");
        switch.set(Router::new().route("/", get(async || "new")));
        assert_eq!(ask().await, "new");
    }
}
