-- How users ask for GPUs; stands in job_submit.lua and cli_filter.lua.
local function set_of(text)
  local found = {}
  for word in text:gmatch("[^,&%s]+") do found[word] = true end
  return found
end

-- "gres:gpu:a100:2" (22.05), "gres/gpu:a100=2" (newer) -> "gres:gpu", "a100", ":2"; nil if no GPU.
local function parse(entry)
  local head, rest = entry:match("^(g?r?e?s?[:/]?gpu)(.*)$")
  if not head or rest:find("^[^:=]") or rest:find("[:=]0$") then return nil end
  if rest == "" or rest:find("^[:=]%d+%a?$") then return head, nil, rest end
  local kind, count = rest:match("^:([^:=]+)(.*)$")
  return head, (kind or "?"):lower(), count or ""
end

-- Reads one list of gres; nil where a GPU has a type of another kind, or there are two models.
--   entries  without models and tokens   model   the model of its GPUs, nil for none
--   tokens   entries named in `counted`  typed   whether it names GPUs by index: g3, s0
--   head     "gres:gpu", nil: no GPUs    count   how many GPUs, as text: ":2"
local function read_list(text, models, counted)
  local list, gpu_count, sign = {entries = {}, tokens = {}}, 0, ":"
  for entry in text:gmatch("[^,]+") do
    local head, kind, count = parse(entry)
    local typed = kind and kind:find("^[gs]%d+$") ~= nil
    if kind and not typed then
      if not models[kind] or (list.model or kind) ~= kind then return nil end
      list.model = kind
    end
    if head then
      list.head, list.typed, sign = head, list.typed or typed, count:match("^[:=]") or sign
      gpu_count = gpu_count + (tonumber(count:match("%d+")) or 1)
      if not typed then entry = head .. count end
    end
    local is_token = counted[entry:match("^g?r?e?s?[:/]?([^:=]+)")]
    table.insert(is_token and list.tokens or list.entries, entry)
  end
  list.count = sign .. gpu_count
  return list
end

-- The model that a constraint names; nil for none, and for more than a list of features.
local function model_in(features, models)
  if features:find("[|*()%[%]]") then return nil end
  for word in pairs(set_of(features)) do if models[word] then return word end end
end
