// JSON on many lines. It works on the text, so that numbers too long for scripts stay as they are.

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const LONGEST = 1 << 20;
/** Deeper levels are not set in further, or they would be out of sight. */
const DEEPEST = 30;

/** The text set in by levels, or null when it is not an object or an array in JSON. */
export function pretty(text) {
  if (text.length > LONGEST || !/^\s*[{[]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const parts = [];
  let depth = 0;
  let last = '';
  const newLine = () => parts.push('\n', '  '.repeat(Math.min(depth, DEEPEST)));
  for (const [token] of text.matchAll(TOKENS)) {
    const isEnd = token === '}' || token === ']';
    const isEmpty = isEnd && (last === '{' || last === '[');
    if (isEnd) depth -= 1;
    if ((isEnd && !isEmpty) || (!isEnd && (last === '{' || last === '[' || last === ','))) newLine();
    parts.push(token === ':' ? ': ' : token);
    if (token === '{' || token === '[') depth += 1;
    last = token;
  }
  return parts.join('');
}
