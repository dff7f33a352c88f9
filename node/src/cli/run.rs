//! `sovm run`.

use clap::Args;

use super::{Context, OpenOptions, unlock};
use crate::{
    client::{self, PATIENCE, Reached},
    config::Config,
    daemon::Daemon,
    error::{ApiError, ErrorKind},
};

/// Run the node in the foreground; all other commands then talk to it
///
/// Stops in an orderly way on Ctrl-C or SIGTERM.
#[derive(Args, Debug)]
pub(super) struct RunArgs {}

impl RunArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        context.home.require()?;
        let lock = match client::reach(&context.home, PATIENCE).await? {
            Reached::Here(lock) => lock,
            Reached::Daemon(_) => {
                return Err(ApiError::new(
                    ErrorKind::HomeInUse,
                    format!("sovm run is already running on {}", context.home.path().display()),
                )
                .safe("it goes on running")
                .next("sovm status"));
            }
        };
        let config = Config::load(&context.home)?;
        let unlock = unlock::existing(&config, &context.output)?;
        // Before the daemon says that it is ready, so that a signal right after is not lost.
        let stop = stop_signal()?;
        let daemon = Daemon::bind(&context.home, &lock)?;
        let service = context
            .backend
            .open(
                &context.home,
                unlock,
                OpenOptions {
                    network: true,
                    ..OpenOptions::default()
                },
            )
            .await?;
        context
            .output
            .note(format!("running on {}; Ctrl-C stops it", context.home.path().display()));
        let served = daemon.serve(service.clone(), stop).await;
        context.output.note("stopping");
        service.shutdown().await;
        // The home is free only once everything in it is closed.
        drop(service);
        drop(lock);
        served.map(|()| 0)
    }
}

/// Resolves at the first Ctrl-C, SIGTERM or SIGHUP.
pub(super) fn stop_signal() -> Result<impl Future<Output = ()> + Send + 'static, ApiError> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| signal(kind).map_err(|error| ApiError::io("listening for signals", &error));
    let (mut interrupt, mut terminate, mut hangup) = (
        listen(SignalKind::interrupt())?,
        listen(SignalKind::terminate())?,
        listen(SignalKind::hangup())?,
    );
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}
