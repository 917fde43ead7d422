# Makes scipy.json: with the Python of an aiperf 0.13.0 (scipy 1.x), python scipy.py > scipy.json
import json,math
import numpy as np
from scipy import stats
rng=np.random.default_rng(5)
out={"t":[],"intervals":[],"ks":[]}
for level in (0.5,0.8,0.9,0.95,0.99,0.999):
    for df in (1,2,3,4,9,29,100):
        out["t"].append({"level":level,"freedom":df,"t":float(stats.t.ppf(1-(1-level)/2,df))})
for values in ([1,1],[1.5,2.25],[0,0,0],[-1,1],[100.1,100.2,100.4,99.9],[1e-9,3e-9,7e-9],[1e12,1.0001e12,0.9999e12],list(map(float,rng.normal(30,3,10)))):
    v=np.array(values,float); m=float(v.mean()); s=float(v.std(ddof=1)); se=s/math.sqrt(len(v)); t=float(stats.t.ppf(.975,len(v)-1))
    out["intervals"].append({"values":values,"mean":m,"std":s,"se":se,"low":m-t*se,"high":m+t*se})
def ks(a,b):
    out["ks"].append({"a":[float(x) for x in a],"b":[float(x) for x in b],"p":float(stats.ks_2samp(np.array(a),np.array(b)).pvalue)})
ks([1,2,3],[1,2,3]); ks([1,2],[3,4]); ks([1,2,3,4],[5,6,7]); ks([1,1,1,2,2],[1,2,2,2]); ks([1,2,3,4,5,6,7,8],[2.5,3.5,4.5])
for n,m,d in ((10,10,0),(10,7,1),(30,20,.5),(60,25,.2),(40,40,2)):
    ks(np.round(rng.normal(0,1,n),3),np.round(rng.normal(d,1,m),3))
print(json.dumps(out,separators=(",",":")))
