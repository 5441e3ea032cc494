-- Roost: gives a GPU job a short lease before it may start, so that roostd can choose its GPUs.
-- slurmctld's lock is held meanwhile: no sockets, no waiting, no FIFO, well under 1 ms.
-- Fails open: a fault here leaves the job as its user wrote it, and a lease ends by itself.
local HEARTBEAT = "/run/roost/heartbeat"
local SPOOL = "/run/roost/spool/events"
local MODELS = ""    -- models of this cluster, "a100,h100": known even while roostd is down
local SEATS = false  -- with second seats, each GPU of a plain request also takes a token
local FRESH_S, LONGEST_LEASE_S, NO_VAL = 15, 86400, 4294967294
local FORMS = {"tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket"}

local function set_of(text)
  local found = {}
  for word in text:gmatch("[^,%s]+") do found[word] = true end
  return found
end

local function read_heartbeat()
  local file = io.open(HEARTBEAT, "r")
  local text = file and file:read(4096) or ""
  if file then file:close() end
  local at, lease = text:match("^roost 1 (%d+) (%d+)\n")
  at, lease = tonumber(at) or 0, tonumber(lease) or 0
  if math.abs(os.time() - at) > FRESH_S or lease < 1 or lease > LONGEST_LEASE_S then return nil end
  local function list(key) return text:match("\n" .. key .. " ([^\n]*)") or "" end
  return {lease = lease, on = set_of(list("enforce")), off = set_of(list("except")), models = list("models")}
end

-- "gres:gpu:a100:2" (22.05), "gres/gpu:a100=2" (newer) -> "gres:gpu", "a100", ":2"; nil if no GPU.
local function parse(entry)
  local head, rest = entry:match("^(g?r?e?s?[:/]?gpu)(.*)$")
  if not head or rest:find("^[^:=]") or rest:find("[:=]0$") then return nil end
  if rest == "" or rest:find("^[:=]%d+%a?$") then return head, nil, rest end
  local kind, count = rest:match("^:([^:=]+)(.*)$")
  return head, (kind or "?"):lower(), count or ""
end

-- Returns the request without its model, and that model; nil for no GPU or a type of another kind.
local function translate(job, models)
  local request, model = {}, nil
  for _, form in ipairs(FORMS) do
    local entries, asks = {}, false
    for entry in (job[form] or ""):gmatch("[^,]+") do
      local head, kind, count = parse(entry)
      if head then
        if kind and (not models[kind] or (model or kind) ~= kind) then return nil end
        model, asks, entry = kind or model, true, head .. count
        if SEATS then entry = entry .. "," .. head .. "token" .. (count == "" and ":1" or count) end
      end
      entries[#entries + 1] = entry
    end
    if asks then request[form] = table.concat(entries, ",") end
  end
  if next(request) then return request, model end
end

local function partition_of(job, partitions)
  if (job.partition or "") ~= "" then return job.partition end
  for name, record in pairs(partitions) do if record.flag_default == 1 then return name end end
  return "*"
end

local function may_hold(job, partition, beat)
  if beat.off[partition] or not (beat.on[partition] or beat.on["*"]) then return false end
  -- Never held: jobs with a choice of partitions, in a reservation, exclusive (0; 2 and 3: to a
  -- user or group), heterogeneous, immediate (srun -I), periodic (scrontab).
  return not (partition:find(",") or (job.reservation or "") ~= ""
    or job.shared == 0 or job.shared == 2 or job.shared == 3
    or (job.het_job_offset or NO_VAL) ~= NO_VAL or job.immediate == 1 or job.cron_job == true)
end

local function handle(job, partitions, uid)
  local beat = read_heartbeat()
  local request, model = translate(job, set_of(MODELS .. "," .. (beat and beat.models or "")))
  if not request then return end
  local partition = partition_of(job, partitions)
  local held = beat and may_hold(job, partition, beat)
  for form, text in pairs(request) do if text ~= job[form] then job[form] = text end end
  if model then job.features = (job.features or "") ~= "" and job.features .. "&" .. model or model end
  if held then
    local now, begin = os.time(), tonumber(job.begin_time) or 0
    local asked = begin > now and begin < NO_VAL
    job.admin_comment = asked and string.format("roost:lease begin=%d", begin) or "roost:lease"
    job.begin_time = math.max(asked and begin or 0, now + beat.lease)
  end
  local spool = beat and io.open(SPOOL, "a")
  if not spool then return end
  -- The partition is the user's text, unchecked so far: it must not forge another line.
  spool:write(("submit %d %s\n"):format(uid, partition:gsub("[^%w_.,*+-]", "?"):sub(1, 200)))
  spool:close()
end

function slurm_job_submit(job, partitions, uid)
  local fine, fault = pcall(handle, job, partitions, uid)
  if not fine then slurm.log_error("roost: job left to Slurm: %s", tostring(fault)) end
  return slurm.SUCCESS
end

function slurm_job_modify() return slurm.SUCCESS end
return slurm.SUCCESS
