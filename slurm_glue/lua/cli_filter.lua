-- Roost: takes the GPU model out of what sbatch, salloc and srun ask for, since a type names a GPU
-- of a node and not its model: --gpus=h100:2 becomes --gpus=2 --constraint=h100. job_submit.lua
-- does the same for jobs, but srun also asks for a step, which no script of slurmctld sees.
-- Runs in the user's command. Fails open: a fault here leaves the request as its user wrote it.
local MODELS = ""  -- models of this cluster: "a100,h100"
local OPTIONS = {"gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "tres-per-task"}

-- gpu_request.lua stands here.

-- Inside a job, srun asks for a step: its job has the nodes already, and steps take no constraint.
local function is_step(options)
  return options.type == "srun"
    and (tonumber(options.jobid) or os.getenv("SLURM_JOB_ID") or os.getenv("SLURM_JOBID")) ~= nil
end

local function translate(options)
  -- -M: of another cluster the types may be models, as without Roost; its own scripts know.
  if (options.clusters or "") ~= "" then return end
  local changed, models, model = {}, set_of(MODELS), nil
  for _, name in ipairs(OPTIONS) do
    -- The value of --gres names the gres, that of --gpus does not: "gres:gpu:h100:2", "h100:2".
    local text, names = options[name] or "", name:find("^gpus") == nil
    if not names then text = text:gsub("[^,]+", "gpu:%0") end
    local list = read_list(text, models, {})
    if not list or (list.typed and list.model) then return end
    if (list.model or model) ~= (model or list.model) then return end  -- no node has two models
    model = model or list.model
    if list.model then
      local plain = table.concat(list.entries, ",")
      changed[name] = names and plain or list.count:sub(2)
    end
  end
  for name, text in pairs(changed) do options[name] = text end
  if not model or is_step(options) then return end
  local features = options.constraint or ""
  if model_in(features, models) == model then return end
  options.constraint = features ~= "" and features .. "&" .. model or model
end

function slurm_cli_pre_submit(options)
  local fine, fault = pcall(translate, options)
  if not fine then slurm.log_debug("roost: request left as it is: %s", tostring(fault)) end
  return slurm.SUCCESS
end

function slurm_cli_setup_defaults() return slurm.SUCCESS end
function slurm_cli_post_submit() return slurm.SUCCESS end
return slurm.SUCCESS
