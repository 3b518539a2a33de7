// A daemon of a test's own, which it can kill.
//
//   WATCHTOWER_BINARY  the program, target/debug/watchtower by default

import { spawn } from 'node:child_process';
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { until } from './harness.mjs';

export const ROOT = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const BINARY = process.env.WATCHTOWER_BINARY ?? path.join(ROOT, 'target/debug/watchtower');

export const freePort = () => new Promise((resolve) => {
  const server = net.createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

export class Daemon {
  /** Prepares a directory with a configuration, to which `extra` YAML is added. */
  async prepare(extra = '') {
    this.dir = mkdtempSync(path.join(os.tmpdir(), 'watchtower-page-'));
    const [grpc, http, web] = await Promise.all([freePort(), freePort(), freePort()]);
    this.port = web;
    this.url = new URL(`http://127.0.0.1:${web}`);
    writeFileSync(path.join(this.dir, 'watchtower.yaml'), `state_dir: ${this.dir}/state\nlisten:\n  otlp_grpc: 127.0.0.1:${grpc}\n  otlp_http: 127.0.0.1:${http}\n  web: 127.0.0.1:${web}\n${extra}`);
    return this;
  }

  spawn() {
    const log = openSync(path.join(this.dir, 'daemon.log'), 'a');
    this.process = spawn(BINARY, ['--config', path.join(this.dir, 'watchtower.yaml'), 'serve'], { cwd: ROOT, stdio: ['ignore', 'ignore', log] });
    return this;
  }

  /** Waits until it takes records and the store answers. */
  async ready() {
    const ask = (where) => fetch(new URL(where, this.url), { signal: AbortSignal.timeout(2_000) });
    try {
      await until('the daemon is ready', async () => {
        const isReady = await ask('/readyz').then(({ status }) => status === 200, () => false);
        return isReady && (await (await ask('/api/status')).json()).pipeline.store.ok;
      }, 60_000);
    } catch (error) {
      throw new Error(`${error.message}\n${readFileSync(path.join(this.dir, 'daemon.log'), 'utf8')}`);
    }
    return this;
  }

  /** Sends logs; says whether they were taken. */
  async send(records) {
    try {
      const answer = await fetch(new URL('/api/logs', this.url), { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(records), signal: AbortSignal.timeout(5_000) });
      return answer.status === 202;
    } catch {
      return false;
    }
  }

  get log() { return readFileSync(path.join(this.dir, 'daemon.log'), 'utf8'); }

  /** As a power cut would. */
  async kill() {
    const ended = new Promise((resolve) => { this.process.on('exit', resolve); });
    this.process.kill('SIGKILL');
    await ended;
  }

  async remove() {
    if (this.process && this.process.exitCode === null && this.process.signalCode === null) await this.kill();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export const startDaemon = async (extra) => (await new Daemon().prepare(extra)).spawn().ready();
