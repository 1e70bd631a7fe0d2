"""The scripts that a Redis or Valkey server runs for the store, each atomically.

Times are the server's own, in microseconds. A bucket is a hash with `full`, the instant at which it will be full, and
`seen`, the instant of the last write; if the clock was set back since, `full` is moved accordingly. The slots of a
limit are a sorted set of holders, scored by the instants at which their leases expire. Obsolete keys expire.
"""

from __future__ import annotations

_COMMON = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function behind(key)
  local state = redis.call('HMGET', key, 'full', 'seen')
  if not state[1] then return 0 end
  local full, seen = tonumber(state[1]), tonumber(state[2])
  if seen > now then full = full - (seen - now) end
  return math.max(0, full - now)
end

local function write(key, behind)
  if behind <= 0 then
    redis.call('DEL', key)
  else
    redis.call('HSET', key, 'full', string.format('%.0f', now + behind), 'seen', string.format('%.0f', now))
    redis.call('PEXPIRE', key, string.format('%.0f', math.ceil(behind / 1000) + 1000))
  end
end
"""

# KEYS: buckets, then slots. ARGV: the number of buckets; for each its limit, the tokens to take and those required;
# the holder, the lease in microseconds; for each set of slots its limit.
# Returns: whether it is granted; for each bucket the microseconds until it is full; for each set of slots the number of
# holders.
TAKE = (
    _COMMON
    + """
local num_buckets = tonumber(ARGV[1])
local holder, lease = ARGV[3 * num_buckets + 2], tonumber(ARGV[3 * num_buckets + 3])
local granted, answer = 1, {1}
for i = 1, num_buckets do
  local limit, needed = tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i + 1])
  local late = behind(KEYS[i])
  if limit - late * limit / 60000000 < needed - 0.000001 then granted = 0 end
  answer[i + 1] = late
end
for i = num_buckets + 1, #KEYS do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', string.format('%.0f', now))
  redis.call('ZREMRANGEBYSCORE', KEYS[i], string.format('(%.0f', now + lease), '+inf')
  answer[i + 1] = redis.call('ZCARD', KEYS[i])
  if answer[i + 1] >= tonumber(ARGV[2 * num_buckets + 3 + i]) then granted = 0 end
end
answer[1] = granted
if granted == 0 then return answer end
for i = 1, num_buckets do
  local taken = tonumber(ARGV[3 * i])
  if taken ~= 0 then
    answer[i + 1] = math.max(0, math.ceil(answer[i + 1] + taken * 60000000 / tonumber(ARGV[3 * i - 1])))
    write(KEYS[i], answer[i + 1])
  end
end
for i = num_buckets + 1, #KEYS do
  redis.call('ZADD', KEYS[i], string.format('%.0f', now + lease), holder)
  redis.call('PEXPIRE', KEYS[i], string.format('%.0f', math.ceil(lease / 1000)))
  answer[i + 1] = answer[i + 1] + 1
end
return answer
"""
)

# KEYS: buckets, then slots. ARGV: the number of buckets; for each its limit and the tokens to return; the holder.
GIVE_BACK = (
    _COMMON
    + """
local num_buckets = tonumber(ARGV[1])
for i = 1, num_buckets do
  write(KEYS[i], math.ceil(behind(KEYS[i]) - tonumber(ARGV[2 * i + 1]) * 60000000 / tonumber(ARGV[2 * i])))
end
for i = num_buckets + 1, #KEYS do redis.call('ZREM', KEYS[i], ARGV[2 * num_buckets + 2]) end
"""
)

# KEYS: slots, one for each holder. ARGV: the lease in microseconds, the holders.
RENEW = (
    _COMMON
    + """
local lease = tonumber(ARGV[1])
for i = 1, #KEYS do
  redis.call('ZADD', KEYS[i], string.format('%.0f', now + lease), ARGV[i + 1])
  redis.call('PEXPIRE', KEYS[i], string.format('%.0f', math.ceil(lease / 1000)))
end
"""
)
