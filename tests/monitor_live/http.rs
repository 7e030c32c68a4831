//! Requests over HTTP, one to a connection.

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::BoxError;

/// Asks the server at `address`, as `127.0.0.1:80`.
pub(crate) async fn ask(
    address: &str,
    method: Method,
    path: &str,
    body: String,
) -> Result<Response<String>, BoxError> {
    let (mut requests, connection) = handshake(TokioIo::new(TcpStream::connect(address).await?)).await?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", address)
        .header("content-type", "application/json")
        .body(Full::<Bytes>::from(body))?;
    let (head, body) = requests.send_request(request).await?.into_parts();
    let text = String::from_utf8(body.collect().await?.to_bytes().into())?;
    Ok(Response::from_parts(head, text))
}

pub(crate) async fn get(address: &str, path: &str) -> Result<Response<String>, BoxError> {
    ask(address, Method::GET, path, String::new()).await
}

pub(crate) async fn get_json(address: &str, path: &str) -> Result<Value, BoxError> {
    json(get(address, path).await?)
}

/// The answer, if it is a good one.
pub(crate) fn json(answer: Response<String>) -> Result<Value, BoxError> {
    if answer.status() != StatusCode::OK {
        return Err(format!("{}: {}", answer.status(), answer.body()).into());
    }
    Ok(serde_json::from_str(answer.body())?)
}
