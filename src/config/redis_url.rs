//! The URL of Redis: whether it is one, and the password in it.
//!
//! Beside what the redis crate reads there is `redis+sentinel://[user@]host:port,…/master[/db]`.

use redis::IntoConnectionInfo;

use super::Secret;

const SENTINEL: [&str; 2] = ["redis+sentinel://", "rediss+sentinel://"];

/// A sentinel URL's scheme and the rest of it.
fn sentinel(url: &str) -> Option<(&'static str, &str)> {
    SENTINEL
        .iter()
        .find_map(|scheme| Some((*scheme, url.strip_prefix(scheme)?)))
}

/// Checks that it can be used.
///
/// # Errors
/// What is wrong with it. The URL itself is not repeated: it may hold a password.
pub(super) fn check(url: &str) -> Result<(), String> {
    let Some((_, rest)) = sentinel(url) else {
        return url.into_connection_info().map(|_| ()).map_err(|error| {
            format!(
                "is not a Redis URL: {error}; write redis://HOST:6379/0, rediss:// for TLS, \
                 redis+unix:///path/to/socket, or redis+sentinel://HOST:26379,HOST:26379/MASTER"
            )
        });
    };
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let mut parts = rest.split('/');
    let mut hosts = parts.next().unwrap_or_default().split(',');
    let port_is_good = |host: &str| {
        host.rsplit_once(':')
            .is_none_or(|(_, port)| port.parse::<u16>().is_ok())
    };
    if !hosts.all(|host| !host.is_empty() && port_is_good(host))
        || parts.next().is_none_or(str::is_empty)
    {
        return Err(
            "is not a sentinel URL; write redis+sentinel://HOST:26379,HOST:26379/MASTER".to_owned(),
        );
    }
    Ok(())
}

/// Takes the password out of a URL, so that the URL can be printed and logged.
pub(super) fn split_password(url: &str) -> Option<(String, Secret)> {
    if let Some((scheme, rest)) = sentinel(url) {
        let (user_info, rest) = rest.rsplit_once('@')?;
        // Borrows the crate's own reading of what stands before the @.
        let (_, password) = split_password(&format!("redis://{user_info}@host"))?;
        return Some(match user_info.split_once(':')?.0 {
            "" => (format!("{scheme}{rest}"), password),
            user => (format!("{scheme}{user}@{rest}"), password),
        });
    }
    let password = url
        .into_connection_info()
        .ok()?
        .redis_settings()
        .password()?
        .to_owned();
    let mut parsed = redis::parse_redis_url(url)?;
    // A socket's URL holds it as a parameter. Only a host's URL can have a password before the host.
    let others: Vec<(String, String)> = parsed
        .query_pairs()
        .filter(|(name, _)| name != "pass")
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    match others.is_empty() {
        true => parsed.set_query(None),
        false => drop(parsed.query_pairs_mut().clear().extend_pairs(others)),
    }
    if parsed.password().is_some() {
        parsed.set_password(None).ok()?;
    }
    Some((parsed.into(), Secret::new(password)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_taken_out_of_every_kind_of_url() {
        for (url, without, password) in [
            ("redis://:p%40ss@h:6379/2", "redis://h:6379/2", "p@ss"),
            ("rediss://me:pw@h", "rediss://me@h", "pw"),
            (
                "redis+unix:///run/r.sock?db=2&pass=pw",
                "redis+unix:///run/r.sock?db=2",
                "pw",
            ),
            (
                "redis+unix:///run/r.sock?pass=pw",
                "redis+unix:///run/r.sock",
                "pw",
            ),
            (
                "redis+sentinel://:p%40ss@a:1,b:2/main",
                "redis+sentinel://a:1,b:2/main",
                "p@ss",
            ),
            (
                "rediss+sentinel://me:pw@a/main/3",
                "rediss+sentinel://me@a/main/3",
                "pw",
            ),
        ] {
            let (found, secret) = split_password(url).unwrap();
            assert_eq!(
                (found.as_str(), secret.expose()),
                (without, password),
                "{url}"
            );
        }
        for url in [
            "redis://h",
            "redis://me@h",
            "redis+sentinel://a/main",
            "redis+sentinel://me@a/main",
            "nonsense",
        ] {
            assert_eq!(split_password(url), None, "{url}");
        }
    }

    #[test]
    fn what_is_not_a_redis_url_is_told() {
        for good in [
            "redis://h:1/2",
            "rediss://h",
            "redis+unix:///r",
            "redis+sentinel://a:1,b/main/2",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["http://h", "h:6379", "", "redis://"] {
            assert!(
                check(bad).unwrap_err().starts_with("is not a Redis URL: "),
                "{bad}"
            );
        }
        for bad in [
            "redis+sentinel://",
            "redis+sentinel://a",
            "redis+sentinel://a:b/main",
            "redis+sentinel://a,/main",
        ] {
            assert!(
                check(bad)
                    .unwrap_err()
                    .starts_with("is not a sentinel URL; write "),
                "{bad}"
            );
        }
    }
}
