//! The page for people, as Chromium shows it.

use std::env;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::browser::Browser;
use crate::http::get_json;
use crate::programs::Monitor;
use crate::{BoxError, until};

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
