//! A small blocking HTTP/1.1 client, so that tests can send exactly the bytes they mean.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {:?}", self.text()))
    }
}

pub(crate) fn get(address: SocketAddr, path: &str) -> std::io::Result<Answer> {
    request(address, "GET", path, &[], b"")
}

pub(crate) fn post(
    address: SocketAddr,
    path: &str,
    content_type: &str,
    body: &[u8],
) -> std::io::Result<Answer> {
    request(
        address,
        "POST",
        path,
        &[("content-type", content_type)],
        body,
    )
}

/// Sends one request on a connection of its own.
pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if method != "GET" && !headers.iter().any(|(name, _)| *name == "transfer-encoding") {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    // A server may refuse before it has read the whole body.
    stream.write_all(body).ok();
    read_answer(&mut BufReader::new(stream))
}

/// Sends these bytes as they are, and reads one answer.
pub(crate) fn exchange(address: SocketAddr, bytes: &[u8]) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(bytes)?;
    read_answer(&mut BufReader::new(stream))
}

/// Reads status, headers and body.
pub(crate) fn read_answer(reader: &mut impl BufRead) -> std::io::Result<Answer> {
    let (status, headers) = read_head(reader)?;
    let find = |name: &str| {
        headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.clone())
    };
    let mut body = Vec::new();
    if find("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        while let Some(chunk) = read_chunk(reader)? {
            body.extend(chunk);
        }
    } else if status == 204 || status == 100 {
        // These have no body, and say no length.
    } else if let Some(length) = find("content-length").and_then(|value| value.parse().ok()) {
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
    } else {
        reader.read_to_end(&mut body)?;
    }
    Ok(Answer {
        status,
        headers,
        body,
    })
}

/// Reads the status line and the headers.
pub(crate) fn read_head(
    reader: &mut impl BufRead,
) -> std::io::Result<(u16, Vec<(String, String)>)> {
    let line = read_line(reader)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status =
        status.ok_or_else(|| std::io::Error::other(format!("not a status line: {line:?}")))?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(reader)?;
        if line.is_empty() {
            return Ok((status, headers));
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }
}

/// Reads one chunk of a chunked body; `None` at its end.
pub(crate) fn read_chunk(reader: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let line = read_line(reader)?;
    let length = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)
        .map_err(|_| std::io::Error::other(format!("not a chunk length: {line:?}")))?;
    let mut chunk = vec![0; length];
    reader.read_exact(&mut chunk)?;
    read_line(reader)?;
    Ok((length > 0).then_some(chunk))
}

fn read_line(reader: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
