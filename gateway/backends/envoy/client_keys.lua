-- Checks the key of a request, charges it for the tokens of its answers, and counts the tokens of every answer.
-- KEYS, DEMANDED and the texts of refusals are written before this file (client_access.py).
local band, bnot, bxor, ror, rshift, lshift, tobit, tohex =
  bit.band, bit.bnot, bit.bxor, bit.ror, bit.rshift, bit.lshift, bit.tobit, bit.tohex

-- SHA-256 (FIPS 180-4) of at most 55 bytes, which is one block. The constants are the first 32 bits of the
-- fractional parts of the square and cube roots of the first primes.
local K, H0 = {}, {}
do
  local found, candidate = 0, 2
  while found < 64 do
    local prime = true
    for divisor = 2, math.floor(math.sqrt(candidate)) do
      if candidate % divisor == 0 then prime = false break end
    end
    if prime then
      found = found + 1
      K[found] = tobit(math.floor((candidate ^ (1 / 3)) % 1 * 2 ^ 32))
      if found <= 8 then H0[found] = tobit(math.floor(math.sqrt(candidate) % 1 * 2 ^ 32)) end
    end
    candidate = candidate + 1
  end
end

local function sha256(text)
  local bits = #text * 8
  local block = text .. "\128" .. string.rep("\0", 61 - #text) .. string.char(rshift(bits, 8), band(bits, 255))
  local w = {}
  for i = 1, 16 do
    local b1, b2, b3, b4 = block:byte(4 * i - 3, 4 * i)
    w[i] = tobit(lshift(b1, 24) + lshift(b2, 16) + lshift(b3, 8) + b4)
  end
  for i = 17, 64 do
    local x, y = w[i - 15], w[i - 2]
    local s0 = bxor(ror(x, 7), ror(x, 18), rshift(x, 3))
    local s1 = bxor(ror(y, 17), ror(y, 19), rshift(y, 10))
    w[i] = tobit(w[i - 16] + s0 + w[i - 7] + s1)
  end
  local a, b, c, d, e, f, g, h = unpack(H0)
  for i = 1, 64 do
    local s1 = bxor(ror(e, 6), ror(e, 11), ror(e, 25))
    local t1 = tobit(h + s1 + bxor(band(e, f), band(bnot(e), g)) + K[i] + w[i])
    local s0 = bxor(ror(a, 2), ror(a, 13), ror(a, 22))
    local t2 = tobit(s0 + bxor(band(a, b), band(a, c), band(b, c)))
    h, g, f, e, d, c, b, a = g, f, e, tobit(d + t1), c, b, a, tobit(t1 + t2)
  end
  local digits = {}
  for i, value in ipairs({ a, b, c, d, e, f, g, h }) do digits[i] = tohex(tobit(H0[i] + value)) end
  return table.concat(digits)
end

local NAMESPACE = "slipway.client"
-- Tokens of answers that their key has not been charged for yet. The answer says how many they were, so that
-- they are charged with the key's next request on this thread.
local unpaid = {}

local function note(handle, name, value)
  handle:streamInfo():dynamicMetadata():set(NAMESPACE, name, value)
end

local function key_text(headers)
  local own = headers:get("x-slipway-key")
  if own then return own, "x-slipway-key" end
  local bearer = headers:get("authorization")
  return bearer and bearer:match("^[Bb]earer +(.+)$"), "authorization"
end

local function refuse(handle, status, words)
  note(handle, "refused", "1")
  handle:respond({ [":status"] = status, ["www-authenticate"] = "Bearer" }, words)
end

function envoy_on_request(handle)
  local service = handle:streamInfo():routeName():match("^[%w][^/]*")
  if not service then return end
  note(handle, "refused", "0")
  note(handle, "key", "0")
  note(handle, "prompt_tokens", "0")
  note(handle, "completion_tokens", "0")
  local headers = handle:headers()
  local text, header = key_text(headers)
  local key = nil
  if text and #text <= 55 and text:sub(1, 4) == "slk_" then
    key = KEYS[sha256(text)]
    headers:remove(header)
  end
  if key and key.ends and key.ends <= os.time() then
    if DEMANDED[service] then return refuse(handle, "401", EXPIRED) end
    key = nil
  end
  if not key then
    if DEMANDED[service] then refuse(handle, "401", text and UNKNOWN or MISSING) end
    return
  end
  if not key.services[service] then
    if DEMANDED[service] then refuse(handle, "403", ELSEWHERE) end
    return
  end
  note(handle, "key", key.id)
  if key.tokens then
    local due = math.min(unpaid[key.id] or 0, key.tokens)
    unpaid[key.id] = 0
    note(handle, "tokens_due", tostring(math.max(due, 1)))
  end
end

local function last_number(text, name)
  return tonumber(text:match('.*"' .. name .. '"%s*:%s*(%d+)'))
end

function envoy_on_response(handle)
  local noted = handle:streamInfo():dynamicMetadata():get(NAMESPACE)
  if not noted or noted["refused"] == "1" then return end
  local id, headers = noted["key"], handle:headers()
  local counted = unpaid[id]
  if headers:get("x-slipway-limited") then
    headers:remove("x-slipway-limited")
    if counted then unpaid[id] = counted + tonumber(noted["tokens_due"] or 0) end
    note(handle, "refused", "1")
    return
  end
  local kind = headers:get("content-type") or ""
  local streams = kind:find("text/event-stream", 1, true) ~= nil
  if not streams and not kind:find("json", 1, true) then return end
  local tail, events = "", 0
  for chunk in handle:bodyChunks() do
    local length = chunk:length()
    if length > 0 then
      if streams then
        local bytes = chunk:getBytes(0, length)
        local _, more = bytes:gsub("data: ?{", "")
        if more > 0 then
          events = events + more
          note(handle, "completion_tokens", tostring(events))
          if counted then unpaid[id] = unpaid[id] + more end
        end
        tail = (tail .. bytes):sub(-2048)
      else
        local from = math.max(length - 2048, 0)
        tail = (tail .. chunk:getBytes(from, length - from)):sub(-2048)
      end
    end
  end
  local prompt, completion = last_number(tail, "prompt_tokens"), last_number(tail, "completion_tokens")
  if prompt or completion then
    note(handle, "prompt_tokens", tostring(prompt or 0))
    note(handle, "completion_tokens", tostring(completion or 0))
    if counted then unpaid[id] = unpaid[id] + (prompt or 0) + (completion or 0) - events end
  end
end
