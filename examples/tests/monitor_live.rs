//! The example `monitor` as others see it: a real Prometheus scrapes it, and a headless Chromium shows its page.
//!
//! They need the programs `prometheus`, `chromium` and `chromedriver`, and the example in the same target folder. So they
//! run only when they are asked for, as `.ci/run` does:
//!
//! ```sh
//! cargo build --release --workspace --all-features --example monitor
//! cargo test --release --workspace --all-features --test monitor_live -- --ignored
//! ```

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long anything may take before it counts as stuck.
const HANG_GUARD: Duration = Duration::from_secs(60);

/// Looks again and again until `look` finds something.
///
/// # Panics
/// With what it found instead, if that takes too long.
async fn until<T>(what: &str, look: impl AsyncFn() -> Result<T, BoxError>) -> T {
    let start = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(instead) if start.elapsed() > HANG_GUARD => panic!("waiting for {what}: {instead}"),
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

// The page for people, as Chromium shows it.

/// The page's text, and the place of its main part.
const SHOWN: &str = "
    const number = id => Number(document.getElementById(id).textContent.replaceAll(',', ''));
    const sum = (selector, key) => [...document.querySelectorAll(selector)].reduce((sum, it) => sum + Number(it.dataset[key]), 0);
    return {
        verdict: document.getElementById('verdict').textContent,
        news: document.getElementById('news').textContent,
        pending: number('pending'), armed: number('armed-all'), fired: number('fired-all'), cancelled: number('cancelled-all'),
        rates: ['armed', 'fired', 'cancelled'].map(number),
        levels: document.querySelectorAll('#levels tr').length,
        on_levels: sum('#levels tr', 'pending'),
        rings: [...document.querySelectorAll('#wheel text')].map(it => it.textContent),
        late: ['late-50', 'late-99', 'late-100'].map(id => Number(document.getElementById(id).dataset.value)),
        late_words: ['late-50', 'late-99', 'late-100'].map(id => document.getElementById(id).textContent),
        bars: sum('#bars .bar', 'count'),
        checks: document.querySelectorAll('#checks tr').length,
        faults: document.querySelectorAll('#checks tr.bad').length,
        too_wide: document.documentElement.scrollWidth > innerWidth,
        top: document.querySelector('main').offsetTop,
        is_gone: document.body.className === 'gone',
    }";

async fn shown(browser: &Browser) -> Result<Value, BoxError> {
    browser.run(SHOWN).await
}

fn number(of: &Value, key: &str) -> f64 {
    of[key].as_f64().unwrap_or_else(|| panic!("{key} is no number in {of}"))
}

/// The page's text, once it is newer than the server's `figures`.
async fn newer_than(browser: &Browser, figures: &Value) -> Value {
    let look = async || {
        let page = shown(browser).await?;
        let is_newer = page["armed"].as_f64().is_some_and(|armed| armed > number(figures, "armed"));
        if is_newer { Ok(page) } else { Err(page.to_string().into()) }
    };
    until("a page with newer figures", look).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver, and the example built"]
async fn the_page_shows_the_figures_of_the_wheel_and_says_when_the_server_is_gone() {
    let monitor = Monitor::start();
    let figures = async || get_json(&monitor.address, "/stats.json").await;
    let browser = Browser::start().await;
    browser.show(1160, 1245, "light").await;
    browser.open(&format!("http://{}/", monitor.address)).await;

    // Twice, so that a page that shows its first figures for ever is seen.
    for _ in 0..2 {
        let before = figures().await.expect("figures");
        let page = newer_than(&browser, &before).await;
        let after = figures().await.expect("figures");
        for key in ["armed", "fired", "cancelled"] {
            let (before, shown, after) = (number(&before, key), number(&page, key), number(&after, key));
            assert!(before <= shown && shown <= after, "{key}: {shown}, and not {before} to {after}");
        }
        assert_eq!(page["verdict"], "healthy", "{page}");
        assert_eq!(number(&page, "on_levels"), number(&page, "pending"), "{page}");
        assert!(number(&page, "pending") > 0.0, "{page}");
        let levels = after["levels"].as_array().expect("a list").len();
        assert_eq!(number(&page, "levels"), levels as f64, "{page}");
        let rings = page["rings"].as_array().expect("a list");
        assert!(rings.len() >= 6 && rings[0].as_str().is_some_and(|ring| ring.starts_with("0: ")), "{page}");
        assert_eq!((number(&page, "checks"), number(&page, "faults")), (7.0, 0.0), "{page}");
    }

    // The histogram, and rates as the server has them in the same time, or nearly.
    let begun = figures().await.expect("figures");
    let look = async || {
        let (page, now) = (shown(&browser).await?, figures().await?);
        let seconds = (number(&now, "at_ms") - number(&begun, "at_ms")) / 1e3;
        let right = ["armed", "fired", "cancelled"].iter().zip(page["rates"].as_array().ok_or("no rates")?);
        let are_right = right.into_iter().all(|(key, rate)| {
            let expected = (number(&now, key) - number(&begun, key)) / seconds;
            rate.as_f64().is_some_and(|rate| (expected / 3.0..=expected * 3.0).contains(&rate))
        });
        if seconds > 5.0 && are_right { Ok(page) } else { Err(format!("{page} beside {now}").into()) }
    };
    let page = until("rates", look).await;
    let late: Vec<f64> = page["late"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
    assert!(late.len() == 3 && late[0] > 0.0 && late.is_sorted(), "{page}");
    for words in page["late_words"].as_array().expect("a list") {
        assert!(words.as_str().is_some_and(|words| words.contains('s')), "no unit: {page}");
    }
    assert!(number(&page, "bars") > 0.0 && number(&page, "bars") <= number(&page, "fired"), "{page}");

    for (width, height, colours) in [(380, 1900, "dark"), (1160, 1245, "dark"), (1160, 1245, "light")] {
        browser.show(width, height, colours).await;
        let page = newer_than(&browser, &figures().await.expect("figures")).await;
        assert_eq!(page["too_wide"], false, "at {width} columns of pixels");
        save(&browser, colours, width).await;
    }
    assert_eq!(browser.complaints().await, [] as [Value; 0]);

    let page = shown(&browser).await.expect("a page");
    drop(monitor);
    let look = async || {
        let page = shown(&browser).await?;
        if page["is_gone"] == true { Ok(page) } else { Err(page.to_string().into()) }
    };
    let gone = until("a page that says that the server is gone", look).await;
    assert_eq!(gone["verdict"], "no answer");
    assert!(gone["news"].as_str().is_some_and(|news| news.contains("has not answered since")), "{gone}");
    assert_eq!(gone["top"], page["top"], "the page jumps when the server goes");
    assert_eq!(gone["armed"].as_f64().map(|armed| armed > 0.0), Some(true), "the last figures stay");
    browser.end().await;
}

/// Keeps a picture of the page in the folder `MONITOR_PICTURES`, if there is one.
async fn save(browser: &Browser, colours: &str, width: u32) {
    let Ok(folder) = env::var("MONITOR_PICTURES") else { return };
    let file = format!("{folder}/monitor-{colours}-{width}.png");
    let mut decoder = Command::new("sh")
        .args(["-c", "base64 --decode > \"$0\"", &file])
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    let picture = browser.picture().await;
    decoder.stdin.take().expect("a pipe").write_all(picture.as_bytes()).expect("a program that reads");
    assert!(decoder.wait().expect("an end").success());
}

// The metrics, as Prometheus reads them.

/// The value of a query that has one.
async fn query(prometheus: &str, query: &str) -> Result<f64, BoxError> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let answer = get_json(prometheus, &format!("/api/v1/query?query={encoded}")).await?;
    let value = answer["data"]["result"][0]["value"][1].as_str();
    Ok(value.ok_or_else(|| format!("{query}: no value in {answer}"))?.parse()?)
}

/// The value of a query, once it is as it has to be.
async fn once(prometheus: &str, words: &str, is_right: impl Fn(f64) -> bool) {
    let look = async || match query(prometheus, words).await? {
        value if is_right(value) => Ok(()),
        value => Err(format!("{words} is {value}").into()),
    };
    until(words, look).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs prometheus, and the example built"]
async fn a_real_prometheus_scrapes_counters_levels_and_histograms() {
    let monitor = Monitor::start();
    // Prometheus 3 refuses a scrape without it; older ones guess.
    let metrics = get(&monitor.address, "/metrics").await.expect("metrics");
    let kind = metrics.headers().get("content-type").map(|kind| kind.to_str().expect("text"));
    assert_eq!(kind, Some("text/plain; version=0.0.4; charset=utf-8"));

    let (folder, address) = (Folder::new("prometheus"), free_address());
    let config = folder.0.join("prometheus.yml");
    let target = &monitor.address;
    let jobs = format!("- job_name: monitor\n    static_configs:\n    - targets: ['{target}']");
    fs::write(&config, format!("global:\n  scrape_interval: 1s\nscrape_configs:\n  {jobs}\n"))
        .expect("a file");
    let _prometheus = Program::start(
        Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.0.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stderr(Stdio::null()),
    );

    let target = until("a scrape", async || {
        let targets = get_json(&address, "/api/v1/targets").await?;
        let target = &targets["data"]["activeTargets"][0];
        // An error stays an error: there is nothing to wait for.
        match target["health"].as_str() {
            Some("up" | "down") => Ok(target.clone()),
            _ => Err(targets.to_string().into()),
        }
    });
    let target = target.await;
    assert_eq!((&target["health"], &target["lastError"]), (&"up".into(), &"".into()), "{target}");

    for (name, kind) in [
        ("timingwheel_fired_total", "counter"),
        ("timingwheel_pending_by_level", "gauge"),
        ("timingwheel_lateness_seconds", "histogram"),
    ] {
        let metadata = async || {
            let metadata = get_json(&address, &format!("/api/v1/metadata?metric={name}")).await?;
            match &metadata["data"][name][0]["type"] {
                Value::String(told) => Ok(told.clone()),
                _ => Err(metadata.to_string().into()),
            }
        };
        assert_eq!(until(name, metadata).await, kind, "{name}");
    }
    once(&address, "sum(timingwheel_up)", |up| up == 1.0).await;
    once(&address, "sum(rate(timingwheel_fired_total[10s]))", |rate| rate > 0.0).await;
    let on_levels = "sum(timingwheel_pending_by_level)";
    once(&address, &format!("{on_levels} - sum(timingwheel_pending)"), |left| left == 0.0).await;
    for histogram in ["timingwheel_lateness_seconds"] {
        let within = format!("histogram_quantile(0.5, sum by (le) (rate({histogram}_bucket[10s])))");
        once(&address, &within, |seconds| seconds > 0.0 && seconds < 60.0).await;
        let mean = format!("sum(rate({histogram}_sum[10s])) / sum(rate({histogram}_count[10s]))");
        once(&address, &mean, |seconds| seconds > 0.0 && seconds < 60.0).await;
        let all = format!("sum({histogram}_bucket{{le=\"+Inf\"}}) - sum({histogram}_count)");
        once(&address, &all, |left| left == 0.0).await;
    }
    // All that fired are in the histogram but for a few, which their owners found due.
    once(&address, "sum(timingwheel_lateness_seconds_count) / sum(timingwheel_fired_total)", |share| {
        share > 0.9 && share <= 1.0
    })
    .await;
}

// A headless Chromium, by the protocol of `WebDriver`.

/// Without a sandbox, which root has none, and without what would ask the network.
const ARGUMENTS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
];

struct Browser {
    driver: String,
    session: String,
    _program: Program,
    _folder: Folder,
}

impl Browser {
    async fn start() -> Self {
        let (driver, folder) = (free_address(), Folder::new("chromium"));
        let (_, port) = driver.rsplit_once(':').expect("a port");
        let program = Program::start(
            Command::new("chromedriver")
                .arg(format!("--port={port}"))
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        until("chromedriver", async || get(&driver, "/status").await).await;
        let arguments: Vec<String> = ARGUMENTS
            .map(str::to_owned)
            .into_iter()
            .chain([format!("--user-data-dir={}", folder.0.display())])
            .collect();
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let answer = ask(&driver, Method::POST, "/session", capabilities.to_string()).await;
        let session = json(answer.expect("an answer")).expect("a session");
        let session = session["value"]["sessionId"].as_str().expect("its number").to_owned();
        Self { driver, session, _program: program, _folder: folder }
    }

    async fn command(&self, command: &str, parameters: Value) -> Result<Value, BoxError> {
        let path = format!("/session/{}/{command}", self.session);
        Ok(json(ask(&self.driver, Method::POST, &path, parameters.to_string()).await?)?["value"].take())
    }

    async fn open(&self, url: &str) {
        self.command("url", json!({ "url": url })).await.expect("a page");
    }

    /// The result of a script in the page.
    async fn run(&self, script: &str) -> Result<Value, BoxError> {
        self.command("execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// By the protocol of Chromium's tools, for what `WebDriver` lacks.
    async fn tool(&self, command: &str, parameters: Value) -> Value {
        self.command("goog/cdp/execute", json!({ "cmd": command, "params": parameters }))
            .await
            .expect(command)
    }

    /// Shows the page in another size, and by `dark` or `light` colours.
    async fn show(&self, width: u32, height: u32, colours: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.tool("Emulation.setDeviceMetricsOverride", size).await;
        let colours = json!({"features": [{"name": "prefers-color-scheme", "value": colours}]});
        self.tool("Emulation.setEmulatedMedia", colours).await;
    }

    /// A picture of what is shown, in base 64.
    async fn picture(&self) -> String {
        let picture = self.tool("Page.captureScreenshot", json!({ "format": "png" })).await;
        picture["data"].as_str().expect("base 64").to_owned()
    }

    /// The complaints of the page and its scripts.
    async fn complaints(&self) -> Vec<Value> {
        let log = self.command("se/log", json!({"type": "browser"})).await.expect("a log");
        log.as_array().expect("a list").clone()
    }

    async fn end(self) {
        let path = format!("/session/{}", self.session);
        let ended = ask(&self.driver, Method::DELETE, &path, String::new()).await;
        ended.expect("Chromium ends");
    }
}

// Programs that run beside a test, and end with it.

/// A program that is killed when it is dropped.
struct Program(Child);

impl Program {
    fn start(command: &mut Command) -> Self {
        let name = command.get_program().display().to_string();
        let child = command.stdin(Stdio::null()).spawn();
        Self(child.unwrap_or_else(|error| panic!("{name} does not start: {error}")))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It fails only where the program has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The example, while it runs.
struct Monitor {
    _program: Program,
    /// Where it serves.
    address: String,
}

impl Monitor {
    /// Starts it for longer than any test takes.
    fn start() -> Self {
        let test = env::current_exe().expect("this program has a path");
        let example: PathBuf =
            test.ancestors().nth(2).expect("a target folder").join("examples").join("monitor");
        assert!(example.exists(), "{} must be built first", example.display());
        let mut program = Program::start(
            Command::new(example).args(["--tasks", "500", "--seconds", "600"]).stdout(Stdio::piped()),
        );
        let output = BufReader::new(program.0.stdout.take().expect("a pipe"));
        let address = output
            .lines()
            .map(|line| line.expect("text"))
            .find_map(|line| Some(line.split_once("http://")?.1.split_once('/')?.0.to_owned()))
            .expect("it tells its address");
        Self { _program: program, address }
    }
}

/// An address that nobody listened at just now.
fn free_address() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").to_string()
}

/// An empty folder for a program's files, removed with the test.
struct Folder(pub(crate) PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = env::temp_dir().join(format!("timingwheel-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

// Requests over HTTP, one to a connection.

/// Asks the server at `address`, as `127.0.0.1:80`.
async fn ask(address: &str, method: Method, path: &str, body: String) -> Result<Response<String>, BoxError> {
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

async fn get(address: &str, path: &str) -> Result<Response<String>, BoxError> {
    ask(address, Method::GET, path, String::new()).await
}

async fn get_json(address: &str, path: &str) -> Result<Value, BoxError> {
    json(get(address, path).await?)
}

/// The answer, if it is a good one.
fn json(answer: Response<String>) -> Result<Value, BoxError> {
    if answer.status() != StatusCode::OK {
        return Err(format!("{}: {}", answer.status(), answer.body()).into());
    }
    Ok(serde_json::from_str(answer.body())?)
}
