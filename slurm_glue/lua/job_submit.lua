-- Roost: gives a GPU job a short lease before it may start, so that roostd can choose its GPUs.
-- Under slurmctld's lock: no sockets, no waiting, no FIFO, well under 1 ms. Fails open: a fault
-- here leaves the job as its user wrote it, and a lease ends by itself.
local HEARTBEAT = "/run/roost/heartbeat"
local SPOOL = "/run/roost/spool/events"
local MODELS = ""    -- models of this cluster, "a100,h100": known even while roostd is down
local MODEL = ""     -- the model of every GPU of this cluster; empty where there are several
local COUNTED = ""   -- models with a count-only gres of that name: each GPU takes one as a token
local SEATS = false  -- with second seats, each GPU of a plain request also takes a gputoken
local FRESH_S, LONGEST_LEASE_S = 15, 86400
local REGISTER_S, LONGEST_REGISTER_S, EAGAIN, STARTED = 15, 60, 11, os.time()  -- see is_registering
local NO_VAL, NO_VAL16 = 4294967294, 65534  -- of slurm.h: a number of 32 or 16 bits is not given
local FORMS = {"tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket"}

-- gpu_request.lua stands here.

-- Wakes roostd, if it is alive.
local function tell(beat, line)
  local spool = beat and io.open(SPOOL, "a")
  if spool then spool:write(line); spool:close() end
end

-- Takes the model out of a request and adds tokens. Returns whether the job asks for GPUs, whether
-- it names them by index, and whether it asks for two or more of one node, task or socket.
-- nil for a type of another kind too: then nothing is changed.
-- With `bare` it adds no gputoken where 22.05 (`gres:gpu`) takes none back: a second seat needs none.
local function translate(job, models, features, bare)
  local counted, lists, model, typed, several = set_of(COUNTED), {}, nil, false, false
  for _, form in ipairs(FORMS) do
    local list = read_list(job[form] or "", models, counted)
    if not list or (list.model or model) ~= (model or list.model) then return nil end
    if list.head then lists[form] = list end
    model, typed = model or list.model, typed or list.typed
    several = several or (form ~= "tres_per_job" and tonumber(list.count:sub(2)) > 1)
  end
  if not next(lists) or (typed and model) then return nil end
  local of = model or model_in(features, models) or MODEL
  for form, list in pairs(lists) do
    -- Tokens of an unknown model stay: roostd's own update of such a job has them too.
    local tokens = counted[of] and {list.head:gsub("gpu$", "") .. of .. list.count} or list.tokens
    local token = SEATS and not typed and (not bare or list.head:find("/")) and list.head .. "token"
    if token then table.insert(tokens, token .. list.count) end
    for _, token in ipairs(tokens) do table.insert(list.entries, token) end
    job[form] = table.concat(list.entries, ",")
  end
  if model then job.features = features ~= "" and features .. "&" .. model or model end
  return true, typed, several
end

local function partition_of(job, partitions)
  if (job.partition or "") ~= "" then return job.partition end
  for name, record in pairs(partitions) do if record.flag_default == 1 then return name end end
  return "*"
end

-- job_lease.lua stands here.

local function submit(job, partitions, uid)
  local beat, registered_s = read_heartbeat()
  local partition = partition_of(job, partitions)
  local asked = job.comment == "roost:shadow" and (uid == 0 or job.user_id ~= uid)  -- by roostd
  local held = beat and may_hold(job, partition, beat) and in_opt_in(job, beat)
  local models = set_of(MODELS .. "," .. (beat and beat.models or ""))
  local bare = held and shares(job, beat)
  local asks, typed, several = translate(job, models, job.features or "", bare)
  if not asks or typed or asked then return end
  if several and is_registering(beat, registered_s) then return EAGAIN end
  if held then hold(job, beat) end
  -- The partition is the user's text, unchecked so far: it must not forge another line.
  tell(beat, ("submit %d %s\n"):format(uid, partition:gsub("[^%w_.,*+-]", "?"):sub(1, 200)))
end

local function modify(job, record)
  translate(job, set_of(MODELS), job.features or record.features or "")
  -- Each update of Roost itself sets one of these two.
  if job.admin_comment or (tonumber(job.begin_time) or 0) > 0 then return end
  if (record.admin_comment or ""):find("^roost:lease") then tell((read_heartbeat()), "change\n") end
end

local function attempt(handle, ...)
  local fine, answer = pcall(handle, ...)
  if not fine then slurm.log_error("roost: job left to Slurm: %s", tostring(answer)) end
  return fine and answer or slurm.SUCCESS
end

function slurm_job_submit(...) return attempt(submit, ...) end
function slurm_job_modify(...) return attempt(modify, ...) end
return slurm.SUCCESS
