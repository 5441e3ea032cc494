-- Which jobs get a lease, and how; stands in job_submit.lua.

-- Returns what roostd says, nil once it is dead; and when it has last found the nodes registered
-- (seconds since the epoch; nil: it does not say), also once it is dead.
local function read_heartbeat()
  local file, text = io.open(HEARTBEAT, "r"), ""
  if file then text = file:read(4096) or ""; file:close() end
  local at, lease = text:match("^roost 1 (%d+) (%d+)\n")
  at, lease = tonumber(at) or 0, tonumber(lease) or 0
  local function list(key) return text:match("\n" .. key .. " ([^\n]*)") or "" end
  local registered_s, age_s = tonumber(list("registered")), math.abs(os.time() - at)
  if age_s > FRESH_S or lease < 1 or lease > LONGEST_LEASE_S then return nil, registered_s end
  return {lease = lease, models = list("models"),
    on = set_of(list("enforce")), off = set_of(list("except")),
    accounts = set_of(list("accounts")), qos = set_of(list("qos")),
    share_qos = set_of(list("share_qos")),
    owner = list("owner"):gsub("^%x", " owner=%0")}, registered_s
end

-- Whether a site that lets Roost steer some accounts or QoS lists the job's. A QoS that the job has
-- not named, and its user has no default for, is not known yet.
local function in_opt_in(job, beat)
  local function is_listed(names, name) return not next(names) or names[name:lower()] ~= nil end
  local qos = job.qos or job.default_qos
  return is_listed(beat.accounts, job.account or job.default_account or "")
    and (qos == nil or is_listed(beat.qos, qos))
end

-- Whether a job opts in to share its GPUs: by the last roost: word of its comment, as roostd reads
-- it, or, if that is silent, by its QoS.
local function shares(job, beat)
  local word = (" " .. (job.comment or "")):match("^.*%sroost:(%S*)") or ""
  local stated = ("," .. word):match("^.*,share=([^,]*)")
  if stated then return stated == "yes" end
  return beat.share_qos[(job.qos or job.default_qos or ""):lower()] ~= nil
end

-- Whether roostd may choose the GPUs of a job, as far as the job's partition and request say.
local function may_hold(job, partition, beat)
  if beat.off[partition] or not (beat.on[partition] or beat.on["*"]) then return false end
  if partition:find(",") or (job.reservation or "") ~= "" then return false end
  -- The values of slurm.h: 0 exclusive to the job, 1 shared, 2 and more exclusive to a user, a
  -- group or a topology segment, NO_VAL16 not given.
  local shared = job.shared or NO_VAL16
  if shared == 0 or (shared > 1 and shared < NO_VAL16) then return false end
  -- --segment of block topologies, as 26.05 shows it: a pin cannot keep to it.
  local segment = job.segment_size or 0
  if segment > 0 and segment < NO_VAL16 then return false end
  local is_heterogeneous = (job.het_job_offset or NO_VAL) ~= NO_VAL
  return not (is_heterogeneous or job.immediate == 1 or job.cron_job == true)  -- srun -I, scrontab
end

local function hold(job, beat)
  local now, begin = os.time(), tonumber(job.begin_time) or 0
  local asked = begin > now and begin ~= NO_VAL
  job.admin_comment = "roost:lease" .. beat.owner .. (asked and (" begin=%d"):format(begin) or "")
  job.begin_time = math.max(asked and begin or 0, now + beat.lease)
end

-- Whether nodes may not have registered yet with a slurmctld that has just started: for about 4 s.
-- Until then it knows each GPU type of a node, and not their sum, and 22.05 to 26.05 refuse two GPUs
-- of a node for good (`Requested node configuration is not available`). On EAGAIN sbatch, srun and
-- salloc ask again, after 1, 2, 3, ... s.
-- A live roostd writes 0 for `registered_s` while nodes are about to register, for a minute at most:
-- also after the takeover by a backup controller, which may have loaded this script long before. A
-- time before this script was loaded (STARTED) says nothing of the nodes: then clients are put off
-- until the script is REGISTER_S old, or LONGEST_REGISTER_S where roostd lives and has yet to ask.
local function is_registering(beat, registered_s)
  if beat and registered_s == 0 then return true end
  local age_s = os.time() - STARTED
  local longest_s = beat and LONGEST_REGISTER_S or REGISTER_S
  return registered_s ~= nil and registered_s <= STARTED and age_s >= 0 and age_s < longest_s
end
