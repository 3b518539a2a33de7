// What stands in the list's place: first steps, no match, sign-in.

import { copyButton } from './copy.js';

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function block(title, text) {
  const code = element('pre', 'copyable', text);
  code.tabIndex = 0;
  return element('section', 'step', element('div', 'head', element('h3', '', title), copyButton('Copy', () => text, code)), code);
}

/** First steps, with this daemon's own addresses. */
export function firstSteps({ meta }) {
  const scheme = meta.tls ? 'https' : 'http';
  const host = location.hostname || 'localhost';
  const api = new URL('api/logs', document.baseURI).href;
  const token = meta.ingest_token_needed;
  const otel = [
    'OTEL_LOGS_EXPORTER=otlp',
    `OTEL_EXPORTER_OTLP_ENDPOINT=${scheme}://${host}:${meta.ports.otlp_http}`,
    'OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf',
    ...(token ? ['OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20YOUR_INGEST_TOKEN'] : []),
    'OTEL_SERVICE_NAME=my-service',
    'OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=prod',
  ].join('\n');
  const curl = [
    `curl ${api} \\`,
    ...(token ? ["  -H 'authorization: Bearer YOUR_INGEST_TOKEN' \\"] : []),
    "  -H 'content-type: application/json' \\",
    "  -d '{\"level\":\"info\",\"service\":\"hello\",\"message\":\"Hello from curl\"}'",
  ].join('\n');
  const notes = meta.loopback_only ? [element('p', 'hint', 'Watchtower listens on this machine only. For senders on other machines, set listen in its configuration.')] : [];
  return element('div', 'steps',
    element('h2', '', 'No logs yet'),
    element('p', 'hint', 'Send one, and this page turns into the list by itself.'),
    block('With curl', curl),
    block('From a program with an OpenTelemetry SDK, by its environment', otel),
    block('On this machine', "watchtower send --service hello 'Hello from Watchtower'"),
    element('p', 'hint', `OTLP over gRPC is on port ${meta.ports.otlp_grpc}, over HTTP on ${meta.ports.otlp_http}.`),
    ...notes);
}

/** The sign-in; `done` is called once it worked. */
export function signIn(done) {
  const input = element('input');
  Object.assign(input, { type: 'password', name: 'token', autocomplete: 'current-password', required: true });
  input.setAttribute('aria-label', 'Read token');
  const button = element('button', 'primary', 'Sign in');
  const trouble = element('p', 'trouble');
  trouble.setAttribute('role', 'alert');
  const form = element('form', 'signin', element('h2', '', 'Sign in'), element('p', 'hint', 'Reading asks for a token: one of auth.read_tokens.'), input, button, trouble);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      const answer = await fetch('api/session', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ token: input.value }), signal: AbortSignal.timeout(10_000) });
      if (answer.ok) return done();
      const error = await answer.json();
      trouble.textContent = answer.status === 401 ? 'This token is not known.' : error.text;
    } catch {
      trouble.textContent = 'The daemon does not answer.';
    } finally {
      button.disabled = false;
    }
    input.select();
    return undefined;
  });
  return form;
}
