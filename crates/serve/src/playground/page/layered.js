/**
 * Layout of a directed graph in layers, from left to right.
 *
 * Edges that lead back are turned round, each node gets the length of the longest path to it as its
 * layer, edges over several layers get bends, and the order within a layer follows the mean of the
 * neighbours' places (Sugiyama, Tagawa and Toda 1981).
 */

const SWEEPS = 8;

/** Returns the indices of edges that close a circle, found depth first from node 0. */
function backEdges(count, edges) {
  const out = Array.from({ length: count }, () => []);
  edges.forEach((edge, at) => out[edge.from].push(at));
  const back = new Set();
  const state = new Uint8Array(count); // 0 new, 1 on the path, 2 done
  for (let root = 0; root < count; root += 1) {
    if (state[root]) continue;
    const path = [[root, 0]];
    state[root] = 1;
    while (path.length > 0) {
      const top = path[path.length - 1];
      const at = out[top[0]][top[1]];
      if (at === undefined) {
        state[top[0]] = 2;
        path.pop();
        continue;
      }
      top[1] += 1;
      const to = edges[at].to;
      if (state[to] === 1) back.add(at);
      else if (state[to] === 0) {
        state[to] = 1;
        path.push([to, 0]);
      }
    }
  }
  return back;
}

/** Returns the length of the longest path to each node. */
function longestPaths(count, edges) {
  const layer = new Array(count).fill(0);
  const waiting = new Array(count).fill(0);
  const out = Array.from({ length: count }, () => []);
  for (const edge of edges) {
    waiting[edge.to] += 1;
    out[edge.from].push(edge.to);
  }
  const ready = [...waiting.keys()].filter((node) => waiting[node] === 0);
  while (ready.length > 0) {
    const node = ready.pop();
    for (const to of out[node]) {
      layer[to] = Math.max(layer[to], layer[node] + 1);
      waiting[to] -= 1;
      if (waiting[to] === 0) ready.push(to);
    }
  }
  return layer;
}

/** Cuts edges over several layers into pieces between bends. */
function bend(layer, edges) {
  const pieces = [];
  const routes = edges.map((edge) => {
    const route = [edge.from];
    for (let at = layer[edge.from] + 1; at < layer[edge.to]; at += 1) {
      route.push(layer.length);
      layer.push(at);
    }
    route.push(edge.to);
    for (let i = 1; i < route.length; i += 1) pieces.push([route[i - 1], route[i]]);
    return route;
  });
  return { pieces, routes };
}

/** Orders each layer by the mean place of the neighbours, to and fro. */
function order(layers, layer, pieces) {
  const before = new Map();
  const after = new Map();
  const add = (map, key, value) => map.set(key, [...(map.get(key) ?? []), value]);
  for (const [from, to] of pieces) {
    add(after, from, to);
    add(before, to, from);
  }
  const place = new Array(layer.length).fill(0);
  const note = (nodes) => nodes.forEach((node, at) => { place[node] = at - (nodes.length - 1) / 2; });
  layers.forEach(note);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forth = sweep % 2 === 0;
    for (const nodes of forth ? layers : [...layers].reverse()) {
      const mean = (node) => {
        const others = (forth ? before : after).get(node);
        return others ? others.reduce((sum, other) => sum + place[other], 0) / others.length : place[node];
      };
      const means = new Map(nodes.map((node) => [node, mean(node)]));
      nodes.sort((a, b) => means.get(a) - means.get(b));
      note(nodes);
    }
  }
  return place;
}

/**
 * Places nodes and edges.
 * @param {number} count number of nodes; node 0 is the first
 * @param {{from: number, to: number, width: number}[]} edges with the widths of their labels
 * @param {{row: number, gap: number}} size distances of rows and smallest distance of columns
 * @returns {{nodes: {x: number, y: number}[], routes: {x: number, y: number}[][], back: Set<number>,
 *   width: number, height: number}} the routes of self loops are empty
 */
export function layered(count, edges, size) {
  const loops = new Set([...edges.keys()].filter((at) => edges[at].from === edges[at].to));
  const plain = edges.map((edge, at) => ({ ...edge, at })).filter((edge) => !loops.has(edge.at));
  const turned = backEdges(count, plain);
  const back = new Set([...turned].map((at) => plain[at].at));
  const forward = plain.map((edge, at) => (turned.has(at) ? { ...edge, from: edge.to, to: edge.from } : edge));
  const layer = longestPaths(count, forward);
  const { pieces, routes } = bend(layer, forward);
  const layers = Array.from({ length: Math.max(...layer) + 1 }, () => []);
  layer.forEach((at, node) => layers[at].push(node));
  const place = order(layers, layer, pieces);
  // The columns are as far apart as the labels between them need.
  const gaps = layers.map(() => size.gap);
  for (const edge of forward) gaps[layer[edge.from]] = Math.max(gaps[layer[edge.from]], edge.width);
  const xs = [0];
  for (let at = 1; at < layers.length; at += 1) xs.push(xs[at - 1] + gaps[at - 1]);
  const tallest = Math.max(...layers.map((nodes) => nodes.length));
  const spot = (node) => ({ x: xs[layer[node]], y: (place[node] + (tallest - 1) / 2) * size.row });
  const all = new Array(edges.length).fill([]);
  forward.forEach((edge, at) => {
    const route = routes[at].map(spot);
    all[edge.at] = back.has(edge.at) ? route.reverse() : route;
  });
  const nodes = Array.from({ length: count }, (_, node) => spot(node));
  return { nodes, routes: all, back, width: xs[xs.length - 1], height: (tallest - 1) * size.row };
}
