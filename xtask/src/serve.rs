//! A local web server for `dist/` and `www/models/`, with the headers that the page is built for.
//!
//! Files are streamed, each request in a thread of its own. Ranges are not implemented, and the answers say so.
//!
//! Invariant: reads only files below those two folders, and answers only on this machine's loopback address.

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow};
use tiny_http::{Header, Method, Request, Response, StatusCode};

use crate::{dist, model};

/// Sent with every answer, errors included: a worker's script needs them as much as the page does.
const HEADERS: [(&str, &str); 8] = [
    // The page and its workers may share memory only where no other origin's document or resource can get in.
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Embedder-Policy", "require-corp"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    // Own scripts and wasm only, nothing inline. Connections: the reader may load a model from any https address, or
    // from a server on the same machine.
    (
        "Content-Security-Policy",
        "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; \
         img-src 'self' data:; connect-src 'self' https: http://localhost:* http://127.0.0.1:*; object-src 'none'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-cache"),
    ("Accept-Ranges", "none"),
];

/// Gets the model, builds the page, and serves both until interrupted.
pub fn serve(port: u16) -> Result<()> {
    model::ensure()?;
    dist::build()?;
    let server = Server::start(port)?;
    println!(
        "xtask: serving {}  (with the default model: {}?model=models/{}&autoload=1)\nxtask: Ctrl-C stops it",
        server.address,
        server.address,
        model::FILE
    );
    server.thread.join().map_err(|_| anyhow!("the server's thread panicked"))
}

/// A server in a background thread; it runs until the process ends.
pub struct Server {
    /// `http://localhost:PORT/`
    pub address: String,
    thread: thread::JoinHandle<()>,
}

impl Server {
    /// Listens on `port` of the loopback address; 0 takes a free port.
    pub fn start(port: u16) -> Result<Self> {
        let server = tiny_http::Server::http(("127.0.0.1", port))
            .map_err(|error| anyhow!(error))
            .with_context(|| format!("cannot listen on port {port}: choose another with --port"))?;
        let port = server.server_addr().to_ip().context("the server has no address")?.port();
        let thread = thread::spawn(move || {
            let folders = Arc::new(Folders { dist: dist::FOLDER.into(), models: model::FOLDER.into() });
            for request in server.incoming_requests() {
                let folders = Arc::clone(&folders);
                thread::spawn(move || folders.answer(request));
            }
        });
        Ok(Self { address: format!("http://localhost:{port}/"), thread })
    }
}

struct Folders {
    dist: PathBuf,
    models: PathBuf,
}

impl Folders {
    fn answer(&self, request: Request) {
        let url = request.url().to_owned();
        let outcome = match request.method() {
            Method::Get | Method::Head => match self.open(&url) {
                Some((file, length, media_type)) => request.respond(with_headers(
                    // Content-Length however long the file is: the page shows how far the model has come.
                    Response::new(StatusCode(200), vec![], file, Some(length), None).with_chunked_threshold(usize::MAX),
                    media_type,
                )),
                None => request.respond(text(404, "There is no such file.")),
            },
            _ => request.respond(text(405, "Only GET and HEAD are answered.")),
        };
        // A reader who leaves in the middle of a download is no fault.
        let gone = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset, io::ErrorKind::ConnectionAborted];
        if let Err(error) = outcome
            && !gone.contains(&error.kind())
        {
            eprintln!("xtask: {url}: {error}");
        }
    }

    /// The file that `url` names, its length in bytes and its media type.
    fn open(&self, url: &str) -> Option<(File, usize, &'static str)> {
        let path = self.resolve(url)?;
        let file = File::open(&path).ok()?;
        let metadata = file.metadata().ok().filter(|metadata| metadata.is_file())?;
        Some((file, usize::try_from(metadata.len()).ok()?, media_type(&path)))
    }

    /// The path below one of the folders that `url` names; None where it tries to leave it.
    fn resolve(&self, url: &str) -> Option<PathBuf> {
        let path = url.split(['?', '#']).next()?.strip_prefix('/')?;
        let decoded = percent_decode(path)?;
        let (folder, rest) = match decoded.strip_prefix("models/") {
            Some(rest) => (&self.models, rest),
            None if decoded.is_empty() => (&self.dist, "index.html"),
            None => (&self.dist, decoded.as_str()),
        };
        let relative = Path::new(rest);
        let stays_inside = relative.components().all(|component| matches!(component, Component::Normal(_)));
        (stays_inside && !rest.contains('\0')).then(|| folder.join(relative))
    }
}

fn text(status: u16, message: &str) -> Response<io::Cursor<Vec<u8>>> {
    with_headers(Response::from_string(message).with_status_code(status), "text/plain; charset=utf-8")
}

fn with_headers<R: io::Read>(response: Response<R>, media_type: &str) -> Response<R> {
    HEADERS.into_iter().chain([("Content-Type", media_type)]).fold(response, |response, (name, value)| {
        response.with_header(Header::from_bytes(name, value).expect("the headers are ASCII"))
    })
}

fn media_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json") => "application/json",
        Some("ts") => "text/plain; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

/// Replaces `%XX` by its byte; None where that is no UTF-8 text or an escape is broken.
fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        rest = tail;
        let high = char::from(digits[0]).to_digit(16)?;
        let low = char::from(digits[1]).to_digit(16)?;
        bytes.push(u8::try_from(16 * high + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn folders() -> Folders {
        Folders { dist: "dist".into(), models: "www/models".into() }
    }

    #[test]
    fn urls_name_files_in_the_two_folders() {
        let resolve = |url| folders().resolve(url);
        assert_eq!(resolve("/"), Some("dist/index.html".into()));
        assert_eq!(resolve("/?model=models/x.gguf"), Some("dist/index.html".into()));
        assert_eq!(resolve("/page.js"), Some("dist/page.js".into()));
        assert_eq!(resolve("/models/a%20b.gguf"), Some("www/models/a b.gguf".into()));
        assert_eq!(resolve("/models/caf%C3%A9.gguf"), Some("www/models/café.gguf".into()));
    }

    #[test]
    fn urls_cannot_leave_the_two_folders() {
        let hostile = [
            "/../Cargo.toml",
            "/models/../../Cargo.toml",
            "/%2e%2e/Cargo.toml",
            "/models/%2e%2e%2f%2e%2e%2fCargo.toml",
            "//etc/passwd",
            "/models//etc/passwd",
            "/models/%2fetc/passwd",
            "/a%00b",
            "/%ff",
            "/%4",
            "/%zz",
            "Cargo.toml",
            "http://localhost/Cargo.toml",
        ];
        for url in hostile {
            assert_eq!(folders().resolve(url), None, "{url}");
        }
    }

    #[test]
    fn the_page_names_the_same_policy_as_the_header() {
        let (_, policy) = HEADERS.into_iter().find(|(name, _)| *name == "Content-Security-Policy").unwrap();
        let policy = policy.strip_suffix("; frame-ancestors 'none'").unwrap();
        let meta = format!(r#"<meta http-equiv="Content-Security-Policy" content="{policy}">"#);
        assert!(include_str!("../../index.html").contains(&meta), "index.html has no {meta}");
    }

    #[test]
    fn every_answer_carries_the_headers() {
        let server = Server::start(0).unwrap();
        let authority = server.address.trim_start_matches("http://").trim_end_matches('/');
        for (request, status) in [("GET /no-such-file", "404"), ("HEAD /../Cargo.toml", "404"), ("POST /", "405")] {
            let mut stream = TcpStream::connect(authority.replace("localhost", "127.0.0.1")).unwrap();
            write!(stream, "{request} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
            for (name, value) in HEADERS {
                assert!(answer.contains(&format!("\r\n{name}: {value}\r\n")), "{request}: no {name} in {answer}");
            }
        }
    }
}
