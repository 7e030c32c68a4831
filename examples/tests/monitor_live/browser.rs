//! A headless Chromium, by the protocol of `WebDriver`.

use std::process::{Command, Stdio};

use hyper::Method;
use serde_json::{Value, json};

use crate::BoxError;
use crate::http::{ask, get, json as answer_of};
use crate::programs::{Folder, Program, free_address};
use crate::until;

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

pub(crate) struct Browser {
    driver: String,
    session: String,
    _program: Program,
    _folder: Folder,
}

impl Browser {
    pub(crate) async fn start() -> Self {
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
        let session = answer_of(answer.expect("an answer")).expect("a session");
        let session = session["value"]["sessionId"].as_str().expect("its number").to_owned();
        Self { driver, session, _program: program, _folder: folder }
    }

    async fn command(&self, command: &str, parameters: Value) -> Result<Value, BoxError> {
        let path = format!("/session/{}/{command}", self.session);
        Ok(answer_of(ask(&self.driver, Method::POST, &path, parameters.to_string()).await?)?["value"].take())
    }

    pub(crate) async fn open(&self, url: &str) {
        self.command("url", json!({ "url": url })).await.expect("a page");
    }

    /// The result of a script in the page.
    pub(crate) async fn run(&self, script: &str) -> Result<Value, BoxError> {
        self.command("execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// By the protocol of Chromium's tools, for what `WebDriver` lacks.
    async fn tool(&self, command: &str, parameters: Value) -> Value {
        self.command("goog/cdp/execute", json!({ "cmd": command, "params": parameters }))
            .await
            .expect(command)
    }

    /// Shows the page in another size, and by `dark` or `light` colours.
    pub(crate) async fn show(&self, width: u32, height: u32, colours: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.tool("Emulation.setDeviceMetricsOverride", size).await;
        let colours = json!({"features": [{"name": "prefers-color-scheme", "value": colours}]});
        self.tool("Emulation.setEmulatedMedia", colours).await;
    }

    /// A picture of what is shown, in base 64.
    pub(crate) async fn picture(&self) -> String {
        let picture = self.tool("Page.captureScreenshot", json!({ "format": "png" })).await;
        picture["data"].as_str().expect("base 64").to_owned()
    }

    /// The complaints of the page and its scripts.
    pub(crate) async fn complaints(&self) -> Vec<Value> {
        let log = self.command("se/log", json!({"type": "browser"})).await.expect("a log");
        log.as_array().expect("a list").clone()
    }

    pub(crate) async fn end(self) {
        let path = format!("/session/{}", self.session);
        let ended = ask(&self.driver, Method::DELETE, &path, String::new()).await;
        ended.expect("Chromium ends");
    }
}
