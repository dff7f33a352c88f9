//! A request's body: the first line is the request, the rest is the command's standard input.

use std::io::{self, Read};

use axum::body::{Body, BodyDataStream};
use bytes::{Buf as _, Bytes, BytesMut};
use futures::StreamExt as _;
use tokio::sync::mpsc;

use crate::error::{ApiError, ErrorKind};

/// Longest request; a statement of a megabyte is a mistake.
const MAX_REQUEST_BYTES: usize = 1024 * 1024;

/// Pieces of input between the socket and a slow reader.
const PIECES_IN_FLIGHT: usize = 8;

/// Reads the first line; what follows is pumped to the returned reader.
pub(super) async fn split_first_line(body: Body) -> Result<(Bytes, InputReader), ApiError> {
    let mut stream = body.into_data_stream();
    let mut buffer = BytesMut::new();
    loop {
        if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(end).freeze();
            buffer.advance(1);
            return Ok((line, InputReader::start(buffer.freeze(), stream)));
        }
        if buffer.len() > MAX_REQUEST_BYTES {
            return Err(ApiError::new(ErrorKind::Usage, "the request is longer than 1 MiB").safe("nothing was done"));
        }
        match stream.next().await {
            Some(Ok(piece)) => buffer.extend_from_slice(&piece),
            Some(Err(error)) => {
                return Err(
                    ApiError::new(ErrorKind::Failed, format!("the request broke off: {error}"))
                        .safe("nothing was done"),
                );
            }
            // A body without a line break is a request without input.
            None => return Ok((buffer.freeze(), InputReader::start(Bytes::new(), stream))),
        }
    }
}

/// The rest of a body as a blocking reader. A caller that goes away is an error here, never an end of input: half an input
/// must not be published as if it were whole.
#[derive(Debug)]
pub(super) struct InputReader {
    current: Bytes,
    pieces: mpsc::Receiver<io::Result<Bytes>>,
}

impl InputReader {
    fn start(first: Bytes, mut stream: BodyDataStream) -> Self {
        let (sender, pieces) = mpsc::channel(PIECES_IN_FLIGHT);
        tokio::spawn(async move {
            let mut wanted = true;
            // Goes on when nobody reads any more, so that the caller is not stuck sending while its answer waits.
            while let Some(piece) = stream.next().await {
                if wanted {
                    let piece = piece.map_err(|error| {
                        io::Error::new(io::ErrorKind::UnexpectedEof, format!("the input broke off: {error}"))
                    });
                    wanted = sender.send(piece).await.is_ok();
                }
            }
        });
        Self { current: first, pieces }
    }
}

impl Read for InputReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.current = piece?,
                None => return Ok(0),
            }
        }
        let length = out.len().min(self.current.len());
        self.current.copy_to_slice(&mut out[..length]);
        Ok(length)
    }
}
