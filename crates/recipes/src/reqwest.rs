//! reqwest: it takes no timer, so the wheel's timeout goes around the request.

use std::error::Error;
use std::time::Duration;

use reqwest::Client;
use timingwheel::TimingWheel;

/// Gets a page within 30 s, its body included. Build the client without `timeout` and `read_timeout`.
///
/// # Errors
/// If the request fails, or takes longer.
pub async fn get(
    wheel: &TimingWheel,
    client: &Client,
    url: &str,
) -> Result<String, Box<dyn Error + Send + Sync>> {
    let page = async { client.get(url).send().await?.error_for_status()?.text().await };
    Ok(wheel.timeout(Duration::from_secs(30), page).await??)
}

#[cfg(test)]
mod tests {
    use timingwheel::Elapsed;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_given_up_by_a_timer_of_the_wheel() {
        let wheel = TimingWheel::new();
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", silent.local_addr().expect("bound"));
        let client = Client::builder().no_proxy().build().expect("a client");
        let error = get(&wheel, &client, &url).await.expect_err("no answer");
        assert!(error.is::<Elapsed>(), "{error}");
        assert_eq!(wheel.stats().fired, 1);
    }
}
