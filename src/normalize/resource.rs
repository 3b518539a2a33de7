//! What records share: service and environment out of the resource, and the scope.

use std::borrow::Cow;

use super::text::cut;
use super::{Attributes, Context, MAX_NAME_BYTES, Repairs};
use crate::record::Group;

/// The service of records that name none.
const UNKNOWN_SERVICE: &str = "unknown_service";

/// Where the environment stands, the best place first: OpenTelemetry's name, the one it had before
/// 2024, Elastic's, and what people write by hand.
const ENVIRONMENT_KEYS: [&str; 5] = [
    "deployment.environment.name",
    "deployment.environment",
    "service.environment",
    "environment",
    "env",
];

const SERVICE_KEY: &str = "service.name";

/// Whether a resource is not known without the attribute of this key.
pub(super) fn is_essential(key: &str) -> bool {
    key == SERVICE_KEY || ENVIRONMENT_KEYS.contains(&key)
}

/// A resource as its sender wrote it.
#[derive(Debug, Default)]
pub(crate) struct ResourceDraft<'a> {
    /// Its attributes.
    pub(crate) attributes: Attributes<'a>,
    /// Attributes that the sender says it dropped.
    pub(crate) dropped_attributes: u32,
    /// The schema of the attributes' names.
    pub(crate) schema_url: Cow<'a, str>,
    /// The service, where something better than an attribute names it.
    pub(crate) service: Option<Cow<'a, str>>,
    /// The environment, likewise.
    pub(crate) environment: Option<Cow<'a, str>>,
}

impl<'a> ResourceDraft<'a> {
    /// What the records of this resource share; the scope is still to be filled in.
    pub(crate) fn into_group(mut self, context: &Context, repairs: &mut Repairs) -> Group<'a> {
        let attributes = &mut self.attributes;
        let name = |key| {
            attributes
                .get(key)
                .filter(|value| !value.is_empty())
                .cloned()
        };
        let said = |value: Option<Cow<'a, str>>| value.filter(|value| !value.is_empty());
        let mut service = said(self.service)
            .or_else(|| name(SERVICE_KEY))
            .unwrap_or(Cow::Borrowed(UNKNOWN_SERVICE));
        let mut environment = said(self.environment)
            .or_else(|| ENVIRONMENT_KEYS.into_iter().find_map(name))
            .unwrap_or_default();
        for (what, value) in [("service", &mut service), ("environment", &mut environment)] {
            let bytes = value.len();
            if cut(value, MAX_NAME_BYTES) {
                attributes.note(what, bytes);
            }
        }
        if self.dropped_attributes > 0 {
            let count = self.dropped_attributes.to_string();
            attributes.mark("otel.dropped_attributes_count", count);
        }
        if !self.schema_url.is_empty() {
            attributes.mark("otel.resource.schema_url", self.schema_url);
        }
        attributes.mark_cuts(repairs);
        Group {
            service,
            environment,
            scope_name: Cow::Borrowed(""),
            scope_version: Cow::Borrowed(""),
            resource: attributes.take(),
            receiver: context.receiver,
            received_at: context.received_at.div_euclid(1_000_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::normalize::Limits;
    use crate::record::Receiver;

    fn group<'a>(pairs: &[(&'a str, &'a str)]) -> Group<'a> {
        let limits = Limits {
            message: 64,
            value: 4096,
            attributes: 100,
            expanded: 1 << 20,
        };
        let context = Context {
            receiver: Receiver::OtlpGrpc,
            received_at: 1_790_000_000_123_456_789,
            retention: Duration::from_secs(86_400),
            future: Duration::from_secs(86_400),
            digits: Default::default(),
            limits,
        };
        let mut repairs = Repairs::default();
        let mut draft = ResourceDraft::default();
        for &(key, value) in pairs {
            draft
                .attributes
                .insert(key.into(), value.into(), &limits, &mut repairs);
        }
        draft.into_group(&context, &mut repairs)
    }

    #[test]
    fn m_20_service_is_named_by_the_resource_or_unknown() {
        assert_eq!(group(&[("service.name", "shop")]).service, "shop");
        assert_eq!(
            group(&[("service.name", "unknown_service:python")]).service,
            "unknown_service:python"
        );
        assert_eq!(group(&[("service.name", "")]).service, "unknown_service");
        assert_eq!(group(&[]).service, "unknown_service");
    }

    #[test]
    fn m_21_environment_comes_from_the_best_key() {
        let all = [
            ("env", "5"),
            ("environment", "4"),
            ("service.environment", "3"),
            ("deployment.environment", "2"),
            ("deployment.environment.name", "1"),
        ];
        for keys in 1..=all.len() {
            let best = (6 - keys).to_string();
            assert_eq!(group(&all[..keys]).environment, best);
        }
        assert_eq!(group(&[]).environment, "");
        assert_eq!(
            group(&[("deployment.environment.name", ""), ("env", "prod")]).environment,
            "prod"
        );
    }

    #[test]
    fn m_22_every_attribute_stays_with_the_resource() {
        let pairs = [
            ("service.name", "shop"),
            ("service.namespace", "eu"),
            ("host.name", "h1"),
        ];
        let expected: Vec<_> = pairs.iter().map(|&(k, v)| (k.into(), v.into())).collect();
        assert_eq!(group(&pairs).resource, expected);
    }

    #[test]
    fn overlong_service_is_cut_and_marked() {
        let long = "s".repeat(3000);
        let group = group(&[("service.name", &long)]);
        assert_eq!(group.service.len(), MAX_NAME_BYTES);
        assert_eq!(
            group.resource[1],
            ("watchtower.truncated".into(), "service (3000 bytes)".into())
        );
    }

    #[test]
    fn receipt_time_is_in_milliseconds() {
        assert_eq!(group(&[]).received_at, 1_790_000_000_123);
    }
}
