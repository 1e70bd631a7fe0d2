// The readings so far, and rates between two readings. Counters only grow until their process restarts.

const KEPT_S = 3600;

/** The sum of two distributions; either may be missing. */
function add(one, other) {
  if (!one || !other) return one ?? other;
  return { bounds: one.bounds, counts: one.counts.map((count, index) => count + other.counts[index]) };
}

/** The selected models of a reading; `name` is "" for all. */
export function chosen(reading, name) {
  return (reading.service?.models ?? []).filter((each) => !name || each.model === name);
}

/** The sum of a field over the selected models; null if unknown. */
export function sum(reading, name, field) {
  return reading.service ? chosen(reading, name).reduce((total, each) => total + each[field], 0) : null;
}

/** Rejections and errors by [source, reason]: the service's by their reason, the gateway's by their HTTP status. */
export function failures(reading) {
  const found = new Map();
  const count = (of, reason, calls) => found.set(`${of}\t${reason}`, (found.get(`${of}\t${reason}`) ?? 0) + calls);
  for (const { code, reason, calls } of reading.service?.calls ?? []) {
    if (code !== "OK") count("service", reason || code, calls);
  }
  for (const [status, responses] of Object.entries(reading.gateway.responses)) {
    if (Number(status) >= 400) count("gateway", `HTTP ${status}`, responses);
  }
  return found;
}

/** The quantile `share` of the times in seconds, estimated within its range; null without times. `isOver`: above the last bound. */
export function percentile(distribution, share) {
  const total = distribution?.counts.reduce((sum, count) => sum + count, 0) ?? 0;
  if (total <= 0) return null;
  const { bounds, counts } = distribution;
  let rest = share * total;
  for (let index = 0; index < bounds.length; index += 1) {
    if (rest <= counts[index] && counts[index] > 0) {
      const from = index ? bounds[index - 1] : 0;
      const isFirst = index === 0;
      return { seconds: isFirst ? bounds[0] : from + ((bounds[index] - from) * rest) / counts[index], isFirst, isOver: false };
    }
    rest -= counts[index];
  }
  return { seconds: bounds.at(-1), isFirst: false, isOver: true };
}

export class Readings {
  constructor() {
    this.all = [];
  }

  /** Store a reading, and drop those that are too old, or from before the gateway's restart. */
  add(reading) {
    if (this.newest?.time_s > reading.time_s) this.all = [];
    this.all.push(reading);
    while (reading.time_s - this.all[0].time_s > KEPT_S) this.all.shift();
  }

  get newest() {
    return this.all.at(-1);
  }

  /** The indices of the readings of the last `seconds`. */
  last(seconds) {
    const found = [];
    for (let index = 0; index < this.all.length; index += 1) {
      if (this.newest.time_s - this.all[index].time_s <= seconds) found.push(index);
    }
    return found;
  }

  /** The reading that is `seconds` older than the one at `index`, or the oldest; null if the service has restarted since. */
  before(index, seconds) {
    let found = index;
    while (found > 0 && this.all[index].time_s - this.all[found].time_s < seconds) found -= 1;
    const [old, now] = [this.all[found].service?.started, this.all[index].service?.started];
    const isSame = old && now && old.seconds === now.seconds && old.nanos === now.nanos;
    return found < index && isSame ? this.all[found] : null;
  }

  /** The rate of a counter of the service per second at `index`; null if unknown. */
  rate(index, name, field) {
    const old = this.before(index, 4); // two polling intervals: engines report after steps, so one interval is uneven
    if (!old) return null;
    const now = this.all[index];
    return Math.max(0, sum(now, name, field) - sum(old, name, field)) / (now.time_s - old.time_s);
  }

  /** The distribution of the times in the minute before `index`. */
  times(index, name, field) {
    const old = this.before(index, 60);
    if (!old) return null;
    const earlier = new Map(old.service.models.map((each) => [each.model, each[field]]));
    let total = null;
    for (const model of chosen(this.all[index], name)) {
      const [from, to] = [earlier.get(model.model), model[field]];
      if (to) total = add(total, from ? { bounds: to.bounds, counts: to.counts.map((count, at) => count - from.counts[at]) } : to);
    }
    return total;
  }
}
