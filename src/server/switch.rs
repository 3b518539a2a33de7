//! Routes that can be exchanged while connections are open: each request takes those of its moment.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::activity::{Activity, UnderWay};
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
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
    pub(super) fn serve(self, peer: SocketAddr, activity: Option<Arc<Activity>>) -> Peer {
        Peer {
            switch: self,
            peer,
            activity,
        }
    }
}

/// The service of one connection.
#[derive(Clone)]
pub(super) struct Peer {
    switch: Switch,
    peer: SocketAddr,
    /// Noted where it is asked for.
    activity: Option<Arc<Activity>>,
}

impl<B> Service<Request<B>> for Peer
where
    B: axum::body::HttpBody<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Noted;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut request = request.map(Body::new);
        let under_way = self.activity.as_ref().map(Activity::begin);
        let noted = |answer| Noted { answer, under_way };
        let router = {
            let routes = self.switch.routes.borrow();
            if let Some(quick) = &routes.quick {
                match quick(request, self.peer) {
                    Ok(answer) => return noted(answer),
                    Err(back) => request = back,
                }
            }
            routes.router.clone()
        };
        request.extensions_mut().insert(ConnectInfo(self.peer));
        let answer = router.oneshot(request);
        noted(Box::pin(answer.map(|answer| match answer {
            Ok(answer) => answer,
            Err(never) => match never {},
        })))
    }
}

/// An answer on its way, and the note that it is.
pub(super) struct Noted {
    answer: BoxFuture<'static, Response>,
    under_way: Option<UnderWay>,
}

impl Future for Noted {
    type Output = Result<Response, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(self.answer.as_mut().poll(context));
        Poll::Ready(Ok(match self.under_way.take() {
            None => answer,
            Some(under_way) => under_way.with(answer),
        }))
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
            let answer = switch
                .clone()
                .serve(peer, None)
                .oneshot(request)
                .await
                .unwrap();
            axum::body::to_bytes(answer.into_body(), 100).await.unwrap()
        };
        assert_eq!(ask().await, "old");
        switch.set(Router::new().route("/", get(async || "new")));
        assert_eq!(ask().await, "new");
    }
}
