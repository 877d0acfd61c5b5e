//! The tab "Curve": costs of forwards, and measurements that count what they say.

use std::net::SocketAddr;

use serde_json::json;

use crate::client::{post, server};

/// Checks that a forward over more tokens takes no less time.
fn check_costs(address: SocketAddr) {
    let found = post(address, "/playground/api/curve", &json!({})).json();
    let points = found["points"].as_array().unwrap();
    assert!(points.len() > 3 && points[0]["rows"] == 1 && points[0]["ratio"] == 1.0, "{found}");
    for pair in points.windows(2) {
        assert!(pair[0]["rows"].as_u64() < pair[1]["rows"].as_u64());
        assert!(pair[0]["ms"].as_f64() <= pair[1]["ms"].as_f64());
    }
}

#[test]
fn costs_never_fall_and_records_have_rising_fractions_and_the_same_text() {
    let server = server(|_| {});
    // One after the other: a process measures one thing at a time.
    check_costs(server.address());
    let mut before = -1.0;
    for schema in 0..5 {
        let found =
            post(server.address(), "/playground/api/curve/measure", &json!({"schema": schema})).json();
        let fraction = found["fraction"].as_f64().unwrap_or_else(|| panic!("{found}"));
        assert!(fraction > before && fraction < 1.0, "{schema}: {fraction} after {before}");
        before = fraction;
        assert_eq!(found["same_text"], true, "{found}");
        let (tokens, forwards) = (found["tokens"].as_u64().unwrap(), found["forwards"].as_array().unwrap());
        let [off, forced] = [&forwards[0], &forwards[1]].map(|n| n.as_u64().unwrap());
        assert!(tokens <= off && forced <= off && found["speedup"].as_f64().unwrap() > 0.0, "{found}");
        assert!(schema < 3 || forced < off, "{found}");
    }
    assert!(before > 0.6, "{before}");
}
