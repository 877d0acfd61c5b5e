//! Connections: accepting them, and ending without losing what was accepted.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::app::App;
use super::model::ModelSource;
use super::{ServeOptions, routes};
use ffwd_runtime::error::{Error, ErrorKind, Result};

/// Threads that serve connections; the models have their own.
const THREADS: usize = 2;
/// Pause after a connection could not be accepted, such as for lack of file descriptors, and time in
/// which what has arrived becomes visible.
const PAUSE: Duration = Duration::from_millis(50);

/// A server that listens, and answers once it [runs](Self::run_until).
pub struct BoundServer {
    runtime: tokio::runtime::Runtime,
    listener: TcpListener,
    app: Arc<App>,
    address: SocketAddr,
    /// Threads of the first model.
    threads: usize,
}

impl BoundServer {
    /// Listens on the address of the options, and loads the first model.
    ///
    /// # Errors
    /// If the address is in use, there is no model, or the first one cannot be loaded.
    pub fn bind(models: Vec<ModelSource>, options: ServeOptions) -> Result<Self> {
        let failed =
            |what: &str, error: &std::io::Error| Error::new(ErrorKind::Io, format!("{what}: {error}"));
        if models.is_empty() {
            return Err(Error::new(ErrorKind::InvalidOption, "there is no model to serve"));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("ffwd-serve")
            .enable_all()
            .build()
            .map_err(|error| failed("the threads of the server cannot be started", &error))?;
        let wanted = options.address;
        let listener = runtime.block_on(TcpListener::bind(wanted)).map_err(|error| {
            failed(&format!("{wanted} cannot be listened on"), &error).hint("choose another --port")
        })?;
        let address = listener.local_addr().map_err(|error| failed("the address is not known", &error))?;
        let app = Arc::new(App::new(models, options));
        let first = runtime.block_on(app.model(None));
        let first = first.map_err(|error| Error::new(ErrorKind::Model, error.text().to_owned()))?;
        let threads = first.engine.threads().number();
        Ok(BoundServer { runtime, listener, app, address, threads })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of threads that the first model runs on.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Serves until `end` is ready, then finishes what runs.
    pub fn run_until(self, end: impl Future<Output = ()>) {
        let BoundServer { runtime, listener, app, .. } = self;
        runtime.block_on(serve(listener, app, end));
        // A request that was not finished in time is cancelled with its scheduler.
        runtime.shutdown_timeout(Duration::from_secs(1));
    }

    /// Serves on a thread of its own.
    pub fn spawn(self) -> ServerHandle {
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let address = self.address;
        let thread = std::thread::spawn(move || self.run_until(async { drop(ended.await) }));
        ServerHandle { address, end: Some(end), thread: Some(thread) }
    }

    /// Serves until the process gets SIGINT or SIGTERM.
    pub fn run(self) {
        self.run_until(signal());
    }
}

impl std::fmt::Debug for BoundServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BoundServer").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A server that runs on a thread of its own. Dropping it ends the server.
#[derive(Debug)]
pub struct ServerHandle {
    address: SocketAddr,
    end: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl ServerHandle {
    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Finishes what runs and ends the server.
    pub fn stop(self) {}
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // Its panics have been printed.
            drop(thread.join());
        }
    }
}

/// Waits for the signal to end.
async fn signal() {
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminated) = signal(SignalKind::terminate()) else {
            drop(interrupted.await);
            return;
        };
        tokio::select! {
            _ = interrupted => {}
            _ = terminated.recv() => {}
        }
    }
    #[cfg(not(unix))]
    drop(interrupted.await);
}

async fn serve(listener: TcpListener, app: Arc<App>, end: impl Future<Output = ()>) {
    let router = routes::router(app.clone());
    let room = Arc::new(Semaphore::new(app.options.max_connections));
    let (ending, ended) = watch::channel(false);
    let mut connections = JoinSet::new();
    let start = |connections: &mut JoinSet<()>, stream: TcpStream, held| {
        let (router, limit, ended) = (router.clone(), app.options.body_timeout, ended.clone());
        connections.spawn(async move {
            if let Err(error) = connection(stream, router, limit, ended).await {
                tracing::debug!("a connection ended: {error}");
            }
            drop(held);
        });
    };
    tokio::pin!(end);
    loop {
        let next = async {
            // Closed by nothing.
            let held = room.clone().acquire_owned().await.ok();
            (listener.accept().await, held)
        };
        tokio::select! {
            () = &mut end => break,
            Some(_) = connections.join_next() => {}
            (accepted, held) = next => match accepted {
                Ok((stream, _)) => start(&mut connections, stream, held),
                Err(error) => {
                    tracing::warn!("a connection cannot be accepted: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
    // Connections that the system has accepted already are served, too. New ones may arrive without
    // end, so this has a time.
    let until = Instant::now() + PAUSE;
    while let Ok(Ok((stream, _))) = timeout_at(until, listener.accept()).await {
        start(&mut connections, stream, None);
    }
    drop(listener);
    tracing::info!("ending: no more connections");
    ending.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(app.options.grace, all).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

/// Serves a connection until the client closes it, or until `ended` and no request is being read or
/// answered.
async fn connection(
    stream: TcpStream,
    router: Router,
    limit: Duration,
    mut ended: watch::Receiver<bool>,
) -> hyper::Result<()> {
    // Small events must not wait for each other; without this they are only slower.
    drop(stream.set_nodelay(true));
    // A connection that is ended before its first byte was read would lose its request.
    let first = tokio::select! {
        biased;
        read = timeout(limit, stream.readable()) => read.is_ok(),
        () = signalled(&mut ended) => false,
    };
    if !first && timeout(PAUSE, stream.readable()).await.is_err() {
        return Ok(());
    }
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limit);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    tokio::select! {
        biased;
        result = connection.as_mut() => return result,
        () = signalled(&mut ended) => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

/// Waits until the server ends.
async fn signalled(ended: &mut watch::Receiver<bool>) {
    drop(ended.wait_for(|ended| *ended).await);
}
