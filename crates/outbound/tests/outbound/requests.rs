//! Requests to servers on this machine.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use turnstone_outbound::{
    AddressPolicy, HttpClient, HttpClientSettings, HttpMethod, OutboundError, OutboundRequest,
    OutboundTimeouts, ProxySettings, RedirectPolicy, TimeoutPhase, TrustSettings,
};
use turnstone_testkit::scripted_server::{
    ReplyPiece, ScriptedServer, ServerReply, serve_connection,
};

const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates");

fn client() -> HttpClient {
    HttpClient::new(HttpClientSettings::new("test")).unwrap()
}

fn get(url: String) -> OutboundRequest {
    OutboundRequest { addresses: AddressPolicy::Any, ..OutboundRequest::get_public(url, 1 << 20) }
}

fn read_text(client: &HttpClient, request: OutboundRequest) -> Result<String, OutboundError> {
    let body = client.start(request).read_to_end()?;
    Ok(String::from_utf8(body).unwrap())
}

fn redirect(status: u16, target: &str) -> ServerReply {
    ServerReply::json(status, "").with_header("location", target)
}

#[test]
fn a_response_is_read_piece_by_piece_while_it_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("go");
    let reply = ServerReply::events("one").then(ReplyPiece::WaitForFile(gate.clone()));
    let reply = reply.then(ReplyPiece::Bytes(b"two".to_vec()));
    let server = ScriptedServer::start_with(vec![reply]).unwrap();
    let request = OutboundRequest {
        method: HttpMethod::Post,
        headers: vec![("x-plain".to_owned(), "a".to_owned())],
        credentials: vec![("x-api-key".to_owned(), "k".to_owned())],
        body: Some(b"{}".to_vec()),
        ..get(format!("{}/path?q=1", server.url()))
    };
    let mut response = client().start(request);
    let head = response.read_head().unwrap();
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(head.url, format!("{}/path", server.url()));
    assert_eq!(response.read_chunk().unwrap().unwrap(), b"one");
    fs_err::write(gate, "").unwrap();
    assert_eq!(response.read_chunk().unwrap().unwrap(), b"two");
    assert_eq!(response.read_chunk().unwrap(), None);
    assert_eq!(response.read_chunk().unwrap(), None);
    let [request] = &server.requests()[..] else { panic!("one request") };
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/path?q=1"));
    assert_eq!(request.header("user-agent"), Some("test"));
    assert_eq!((request.header("x-plain"), request.header("x-api-key")), (Some("a"), Some("k")));
    assert_eq!(request.text(), "{}");
}

#[test]
fn dropping_a_response_closes_its_connection() {
    let reply = ServerReply::events("one").then(ReplyPiece::WaitForClose);
    let server = ScriptedServer::start_with(vec![reply]).unwrap();
    let mut response = client().start(get(server.url()));
    assert_eq!(response.read_chunk().unwrap().unwrap(), b"one");
    drop(response);
    while server.open_connections() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn another_thread_can_cancel_a_reader() {
    let reply = ServerReply::events("one").then(ReplyPiece::WaitForClose);
    let server = ScriptedServer::start_with(vec![reply]).unwrap();
    let mut response = client().start(get(server.url()));
    assert_eq!(response.read_chunk().unwrap().unwrap(), b"one");
    let canceller = response.canceller();
    let reader = std::thread::spawn(move || response.read_chunk());
    canceller.cancel();
    assert_eq!(reader.join().unwrap(), Err(OutboundError::Cancelled));
}

#[test]
fn addresses_of_this_machine_and_its_network_are_refused() {
    let server = ScriptedServer::start_with(Vec::new()).unwrap();
    let port = server.port();
    let hosts = [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "0.0.0.0",
        "2130706433",
        "0x7f.1",
        "017700000001",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "169.254.169.254",
        "10.0.0.1",
    ];
    for host in hosts {
        let url = format!("http://{host}:{port}/");
        let refused = read_text(&client(), OutboundRequest::get_public(url, 100));
        assert!(
            matches!(refused, Err(OutboundError::AddressRefused { .. })),
            "{host}: {refused:?}"
        );
    }
    assert!(server.requests().is_empty());
}

#[test]
fn a_redirect_into_this_machine_is_refused() {
    // The proxy stands for a public host that redirects to a private one.
    let target = ScriptedServer::start_with(Vec::new()).unwrap();
    let target_url = format!("http://127.0.0.1:{}/", target.port());
    let replies = vec![redirect(302, &target_url), redirect(302, "http://localhost/")];
    let proxy = ScriptedServer::start_with(replies).unwrap();
    let proxies = ProxySettings { http: Some(proxy.url()), ..ProxySettings::default() };
    let settings = HttpClientSettings { proxies, ..HttpClientSettings::new("test") };
    let client = HttpClient::new(settings).unwrap();
    for _ in 0..2 {
        let request = OutboundRequest::get_public("http://1.1.1.1/".to_owned(), 100);
        let refused = read_text(&client, request);
        assert!(matches!(refused, Err(OutboundError::AddressRefused { .. })), "{refused:?}");
    }
    assert_eq!(proxy.requests().len(), 2);
    assert!(target.requests().is_empty());
}

#[test]
fn credentials_do_not_follow_a_redirect_to_another_origin() {
    let home = Arc::new(std::sync::Mutex::new(String::new()));
    let back = Arc::clone(&home);
    let other = ScriptedServer::start(move |request| match request.path.as_str() {
        "/back" => redirect(307, &back.lock().unwrap()),
        _ => ServerReply::json(200, "other"),
    })
    .unwrap();
    let target = other.url();
    let first = ScriptedServer::start(move |request| match request.path.as_str() {
        "/same" => redirect(308, "/end"),
        "/away" => redirect(307, &format!("{target}/end")),
        "/round" => redirect(307, &format!("{target}/back")),
        _ => ServerReply::json(200, "first"),
    })
    .unwrap();
    *home.lock().unwrap() = format!("{}/end", first.url());
    let request = |path: &str| OutboundRequest {
        method: HttpMethod::Post,
        body: Some(b"body".to_vec()),
        credentials: vec![("authorization".to_owned(), "Bearer k".to_owned())],
        ..get(format!("{}{path}", first.url()))
    };
    let client = client();
    assert_eq!(read_text(&client, request("/same")).unwrap(), "first");
    assert_eq!(read_text(&client, request("/away")).unwrap(), "other");
    assert_eq!(read_text(&client, request("/round")).unwrap(), "first");
    let keys = |server: &ScriptedServer| -> Vec<(String, bool)> {
        let requests = server.requests().into_iter();
        requests
            .map(|request| (request.path.clone(), request.header("authorization").is_some()))
            .collect()
    };
    let with = |path: &str, has_key| (path.to_owned(), has_key);
    let expected = [
        with("/same", true),
        with("/end", true),
        with("/away", true),
        with("/round", true),
        with("/end", false),
    ];
    assert_eq!(keys(&first), expected);
    assert_eq!(keys(&other), [with("/end", false), with("/back", false)]);

    let strict = OutboundRequest { redirects: RedirectPolicy::SameOrigin, ..request("/away") };
    let refused = read_text(&client, strict);
    assert!(matches!(refused, Err(OutboundError::RedirectRefused { .. })), "{refused:?}");
}

#[test]
fn redirects_end_at_their_limit_and_turn_posts_into_reads() {
    let server = ScriptedServer::start(|request| match request.path.as_str() {
        "/post" => redirect(303, "/end"),
        "/end" => ServerReply::json(200, &format!("{} {}", request.method, request.text())),
        _ => redirect(302, "/loop"),
    })
    .unwrap();
    let post = OutboundRequest {
        method: HttpMethod::Post,
        body: Some(b"body".to_vec()),
        ..get(format!("{}/post", server.url()))
    };
    assert_eq!(read_text(&client(), post).unwrap(), "GET ");
    let endless = read_text(&client(), get(format!("{}/loop", server.url())));
    assert_eq!(endless, Err(OutboundError::TooManyRedirects { limit: 10 }));
    assert_eq!(server.requests().len(), 2 + 11);
}

#[test]
fn silent_hosts_time_out_in_each_phase() {
    let server = ScriptedServer::start(|request| {
        let reply = ServerReply::events(if request.path == "/body" { "one" } else { "" });
        reply.then(ReplyPiece::WaitForClose)
    })
    .unwrap();
    let short = Some(Duration::from_millis(50));
    let none = OutboundTimeouts::NONE;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    let cases = [
        (silent_url, OutboundTimeouts { headers: short, ..none }, TimeoutPhase::Headers),
        (
            format!("{}/body", server.url()),
            OutboundTimeouts { chunk: short, ..none },
            TimeoutPhase::Body,
        ),
        (server.url(), OutboundTimeouts { total: short, ..none }, TimeoutPhase::Response),
    ];
    for (url, timeouts, expected) in cases {
        let error = read_text(&client(), OutboundRequest { timeouts, ..get(url) }).unwrap_err();
        assert!(error.is_transient());
        let OutboundError::Timeout { phase, .. } = error else { panic!("{error}") };
        assert_eq!(phase, expected);
    }
}

#[test]
fn cut_and_oversized_bodies_are_errors() {
    let replies = vec![
        ServerReply::events("one").then(ReplyPiece::Cut),
        ServerReply::events("12345"),
        ServerReply::events("x").with_header("content-encoding", "gzip"),
    ];
    let server = ScriptedServer::start_with(replies).unwrap();
    let client = client();
    let mut response = client.start(get(server.url()));
    assert_eq!(response.read_chunk().unwrap().unwrap(), b"one");
    let cut = response.read_chunk();
    assert!(matches!(cut, Err(OutboundError::Broken { .. })), "{cut:?}");
    assert_eq!(response.read_chunk(), cut);
    let small = OutboundRequest { max_body: 4, ..get(server.url()) };
    assert_eq!(read_text(&client, small), Err(OutboundError::BodyTooLarge { limit: 4 }));
    let encoded = read_text(&client, get(server.url()));
    assert_eq!(encoded, Err(OutboundError::Encoded { encoding: "gzip".to_owned() }));
}

#[test]
fn requests_go_through_the_proxy_except_to_listed_hosts() {
    let proxy = ScriptedServer::start(|_| ServerReply::json(200, "proxy")).unwrap();
    let authority = format!("user:secret@127.0.0.1:{}", proxy.port());
    let proxies = ProxySettings {
        all: Some(authority),
        no_proxy: Some("direct.invalid".to_owned()),
        ..ProxySettings::default()
    };
    let settings = HttpClientSettings { proxies, ..HttpClientSettings::new("test") };
    assert!(!format!("{settings:?}").contains("secret"));
    let client = HttpClient::new(settings).unwrap();
    let text = read_text(&client, get("http://model.invalid/v1?key=1".to_owned())).unwrap();
    assert_eq!(text, "proxy");
    let [request] = &proxy.requests()[..] else { panic!("one request") };
    assert_eq!(request.path, "http://model.invalid/v1?key=1");
    assert!(request.header("proxy-authorization").is_some());
    let direct = read_text(&client, get("http://direct.invalid/".to_owned()));
    assert!(matches!(direct, Err(OutboundError::Connect { .. })), "{direct:?}");
}

/// Serves one connection of SOCKS 5 and returns the host that the client asked for.
fn serve_socks(listener: &TcpListener) -> io::Result<String> {
    let (mut stream, _) = listener.accept()?;
    let mut greeting = [0; 2];
    stream.read_exact(&mut greeting)?;
    stream.read_exact(&mut vec![0; usize::from(greeting[1])])?;
    stream.write_all(&[5, 0])?;
    let mut request = [0; 5];
    stream.read_exact(&mut request)?;
    let mut host = vec![0; usize::from(request[4])];
    stream.read_exact(&mut host)?;
    stream.read_exact(&mut [0; 2])?;
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    serve_connection(&mut stream, |_| ServerReply::json(200, "over SOCKS"))?;
    Ok(String::from_utf8_lossy(&host).into_owned())
}

#[test]
fn a_socks_proxy_resolves_names_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("socks5h://{}", listener.local_addr().unwrap());
    let proxies = ProxySettings { all: Some(url), ..ProxySettings::default() };
    let settings = HttpClientSettings { proxies, ..HttpClientSettings::new("test") };
    let client = HttpClient::new(settings).unwrap();
    let server = std::thread::spawn(move || serve_socks(&listener));
    let text = read_text(&client, get("http://model.invalid/".to_owned())).unwrap();
    assert_eq!(text, "over SOCKS");
    assert_eq!(server.join().unwrap().unwrap(), "model.invalid");
}

/// Serves TLS connections for localhost, signed by the authority of the tests.
fn start_tls_server() -> io::Result<u16> {
    let certificate = CertificateDer::from_pem_file(format!("{CERTIFICATES}/server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(format!("{CERTIFICATES}/server-key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream.unwrap());
            // A client that does not trust the certificate closes the connection.
            drop(serve_connection(&mut stream, |_| ServerReply::json(200, "over TLS")));
            stream.conn.send_close_notify();
            drop(stream.conn.complete_io(&mut stream.sock));
        }
    });
    Ok(port)
}

#[test]
fn only_trusted_certificates_are_accepted() {
    let port = start_tls_server().unwrap();
    let client = |file: &str| {
        let trust =
            TrustSettings { file: Some(format!("{CERTIFICATES}/{file}").into()), folder: None };
        HttpClient::new(HttpClientSettings { trust, ..HttpClientSettings::new("test") }).unwrap()
    };
    let trusting = client("authority.pem");
    let url = format!("https://localhost:{port}/");
    assert_eq!(read_text(&trusting, get(url.clone())).unwrap(), "over TLS");
    let wrong_name = read_text(&trusting, get(format!("https://127.0.0.1:{port}/")));
    assert!(matches!(wrong_name, Err(OutboundError::Certificate { .. })), "{wrong_name:?}");
    // The certificates of the system do not include this authority.
    let distrusted = read_text(&self::client(), get(url.clone())).unwrap_err();
    assert!(matches!(distrusted, OutboundError::Certificate { .. }), "{distrusted:?}");
    assert!(!distrusted.is_transient());
    let missing = read_text(&client("missing.pem"), get(url)).unwrap_err();
    assert!(matches!(missing, OutboundError::Setup { .. }), "{missing:?}");
}

#[test]
fn errors_and_debug_texts_contain_no_credentials() {
    let secret = "s3cret";
    let urls = [
        format!("http://user:{secret}@host.invalid/?key={secret}#{secret}"),
        format!("ftp://user:{secret}@host.invalid/"),
        format!("http://user:{secret}@:x/?{secret}"),
    ];
    for url in urls {
        let request = OutboundRequest {
            credentials: vec![("x-api-key".to_owned(), secret.to_owned())],
            ..get(url)
        };
        assert!(!format!("{request:?}").contains(secret), "{request:?}");
        let error = read_text(&client(), request).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(secret), "{error}");
    }
    let request = OutboundRequest {
        credentials: vec![("x-api-key".to_owned(), format!("{secret}\n"))],
        ..get("http://host.invalid/".to_owned())
    };
    let error = read_text(&client(), request).unwrap_err();
    assert_eq!(error.to_string(), "the header `x-api-key` is not valid");
}
