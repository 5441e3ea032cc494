-- For a site's own job_submit.lua: its functions run first, and what they refuse stays refused.
local function after(own, handle)
  return function(...)
    local answer = slurm.SUCCESS
    if own then answer = own(...) end
    if answer ~= nil and answer ~= slurm.SUCCESS then return answer end
    local ours = attempt(handle, ...)
    return ours ~= slurm.SUCCESS and ours or answer
  end
end

return {
  submit = function(own) return after(own, submit) end,
  modify = function(own) return after(own, modify) end,
}
