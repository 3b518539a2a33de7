// What axe-core finds on a page.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const from = process.env.WATCHTOWER_PLAYWRIGHT ? path.join(path.resolve(process.env.WATCHTOWER_PLAYWRIGHT), 'from.js') : import.meta.url;
const AXE = readFileSync(createRequire(from).resolve('axe-core/axe.min.js'), 'utf8');
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

/** What axe finds, in words. */
export async function problems(page) {
  // As the developer tools would: the page's own policy lets no other script in.
  const client = await page.context().newCDPSession(page);
  const { frameTree } = await client.send('Page.getFrameTree');
  const { executionContextId } = await client.send('Page.createIsolatedWorld', { frameId: frameTree.frame.id, worldName: 'axe' });
  const run = (expression) => client.send('Runtime.evaluate', { expression, contextId: executionContextId, awaitPromise: true, returnByValue: true });
  await run(AXE);
  const { result, exceptionDetails } = await run(`axe.run(document, { runOnly: ${JSON.stringify(RULES)} }).then(({ violations }) => violations.flatMap(({ id, nodes }) => nodes.map(({ html, any, all }) => id + ': ' + [...any, ...all].map(({ message }) => message).join('; ') + ' ' + html.slice(0, 200))))`);
  assert.ok(Array.isArray(result.value), JSON.stringify(exceptionDetails ?? result));
  await client.detach();
  return result.value;
}
