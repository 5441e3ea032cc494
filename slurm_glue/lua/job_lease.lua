-- Which jobs get a lease, and how; stands in job_submit.lua.
-- Whether a site that lets Roost steer some accounts or QoS lists the job's. A QoS that the job has
-- not named, and its user has no default for, is not known yet.
local function in_opt_in(job, beat)
  local function is_listed(names, name) return not next(names) or names[name:lower()] ~= nil end
  local qos = job.qos or job.default_qos
  return is_listed(beat.accounts, job.account or job.default_account or "")
    and (qos == nil or is_listed(beat.qos, qos))
end

-- Whether a job opts in to share its GPUs: by its comment or, if that is silent, by its QoS.
local function shares(job, beat)
  local stated = (" " .. (job.comment or "")):match("%sroost:%S*share=([^%s,]*)")
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
  local is_heterogeneous = (job.het_job_offset or NO_VAL) ~= NO_VAL
  return not (is_heterogeneous or job.immediate == 1 or job.cron_job == true)  -- srun -I, scrontab
end

local function hold(job, beat)
  local now, begin = os.time(), tonumber(job.begin_time) or 0
  local asked = begin > now and begin < NO_VAL
  job.admin_comment = "roost:lease" .. beat.owner .. (asked and (" begin=%d"):format(begin) or "")
  job.begin_time = math.max(asked and begin or 0, now + beat.lease)
end
