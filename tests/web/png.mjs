// Makes a screenshot smaller: 256 colours, and each other one by the nearest of them.

import zlib from 'node:zlib';

const MOST_COLOURS = 256;
/** Square of a distance of colours that is hard to see. */
const NEAR = 400;
const SIGNATURE = Buffer.from('89504e470d0a1a0a', 'hex');

function read(file) {
  const parts = {};
  for (let at = 8; at < file.length;) {
    const length = file.readUInt32BE(at);
    const name = file.toString('latin1', at + 4, at + 8);
    (parts[name] ??= []).push(file.subarray(at + 8, at + 8 + length));
    at += length + 12;
  }
  const [head] = parts.IHDR;
  const [width, height] = [head.readUInt32BE(0), head.readUInt32BE(4)];
  const size = { 2: 3, 6: 4 }[head[9]];
  const data = zlib.inflateSync(Buffer.concat(parts.IDAT));
  const pixels = new Uint8Array(width * height * size);
  const row = width * size;
  for (let y = 0; y < height; y += 1) {
    const filter = data[y * (row + 1)];
    for (let x = 0; x < row; x += 1) {
      const at = y * row + x;
      const left = x >= size ? pixels[at - size] : 0;
      const up = y > 0 ? pixels[at - row] : 0;
      const corner = x >= size && y > 0 ? pixels[at - row - size] : 0;
      pixels[at] = data[y * (row + 1) + 1 + x] + [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
    }
  }
  return { width, height, size, pixels };
}

function paeth(left, up, corner) {
  const guess = left + up - corner;
  const [a, b, c] = [left, up, corner].map((one) => Math.abs(guess - one));
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

function part(name, data) {
  const body = Buffer.concat([Buffer.from(name, 'latin1'), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc(body));
  return Buffer.concat([length, body, sum]);
}

function crc(bytes) {
  let value = 0xffffffff;
  for (const byte of bytes) {
    value ^= byte;
    for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  }
  return ~value >>> 0;
}

/** A PNG of 8 bits a channel as one with a palette. */
export function smaller(file) {
  const { width, height, size, pixels } = read(file);
  const colours = new Uint32Array(width * height);
  const counts = new Map();
  for (let i = 0; i < colours.length; i += 1) {
    const at = i * size;
    colours[i] = (pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2];
    counts.set(colours[i], (counts.get(colours[i]) ?? 0) + 1);
  }
  const far = (a, b) => [16, 8, 0].reduce((sum, by) => sum + (((a >> by) & 255) - ((b >> by) & 255)) ** 2, 0);
  const common = [...counts].sort((a, b) => b[1] - a[1]).map(([colour]) => colour);
  // Not only the shades of the most common ones: a colour counts where none of the palette is near.
  const palette = [];
  for (const colour of common) if (palette.length < MOST_COLOURS && palette.every((other) => far(colour, other) > NEAR)) palette.push(colour);
  for (const colour of common) if (palette.length < MOST_COLOURS && !palette.includes(colour)) palette.push(colour);
  const places = new Map(palette.map((colour, i) => [colour, i]));
  for (const colour of counts.keys()) {
    if (places.has(colour)) continue;
    let best = 0;
    for (let i = 1; i < palette.length; i += 1) if (far(colour, palette[i]) < far(colour, palette[best])) best = i;
    places.set(colour, best);
  }
  const lines = Buffer.alloc(height * (width + 1));
  for (let i = 0; i < colours.length; i += 1) lines[Math.floor(i / width) * (width + 1) + 1 + (i % width)] = places.get(colours[i]);
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  return Buffer.concat([
    SIGNATURE, part('IHDR', head), part('PLTE', Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]))),
    part('IDAT', zlib.deflateSync(lines, { level: 9 })), part('IEND', Buffer.alloc(0)),
  ]);
}
