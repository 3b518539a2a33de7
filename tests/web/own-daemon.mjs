// A daemon of a test's own, where the one that tests share will not do.
//
//   WATCHTOWER_BINARY   the daemon, target/debug/watchtower by default

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

const root = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), '../..');
const binary = path.resolve(process.env.WATCHTOWER_BINARY ?? path.join(root, 'target/debug/watchtower'));
const START_MS = 60_000;

export const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

export function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer();
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Waits until an address answers 200. */
export async function answers(url, ms = START_MS) {
  const end = Date.now() + ms;
  for (;;) {
    try {
      if ((await fetch(url, { signal: AbortSignal.timeout(5_000) })).ok) return;
    } catch {
      // Not yet.
    }
    if (Date.now() > end) throw new Error(`${url} does not answer within ${ms} ms`);
    await pause(50);
  }
}

/** Starts a daemon with more configuration; `stop()` ends it and deletes what it kept. */
export async function startDaemon(yaml = '') {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'watchtower-page-'));
  const [grpc, http, web] = await Promise.all([freePort(), freePort(), freePort()]);
  const config = path.join(dir, 'watchtower.yaml');
  fs.writeFileSync(config, `state_dir: ${dir}/state\nlisten:\n  otlp_grpc: 127.0.0.1:${grpc}\n  otlp_http: 127.0.0.1:${http}\n  web: 127.0.0.1:${web}\n${yaml}\n`);
  const log = path.join(dir, 'daemon.log');
  const child = spawn(binary, ['--config', config, 'serve'], { cwd: root, stdio: ['ignore', 'ignore', fs.openSync(log, 'a')] });
  const ended = new Promise((resolve) => { child.on('exit', resolve); child.on('error', resolve); });
  const url = `http://127.0.0.1:${web}`;
  const stop = async () => {
    child.kill('SIGKILL');
    await ended;
    fs.rmSync(dir, { recursive: true, force: true });
  };
  try {
    await answers(`${url}/readyz`);
  } catch (error) {
    const said = fs.readFileSync(log, 'utf8').slice(-2_000);
    await stop();
    throw new Error(`${error.message}; the daemon's log:\n${said}`);
  }
  return { url, web, http, grpc, dir, pid: child.pid, binary, root, logText: () => fs.readFileSync(log, 'utf8'), stop };
}

/** Processes that a process has started, and theirs. */
export function descendants(pid) {
  const children = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).filter((name) => {
    try {
      return fs.readFileSync(`/proc/${name}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ')[1] === String(pid);
    } catch {
      return false;
    }
  }).map(Number);
  return children.flatMap((child) => [child, ...descendants(child)]);
}
