import{b as a,c as b}from"./chunk-TYSUX7OZ.js";import"./chunk-2UIZKRCV.js";import"./chunk-FZ4DFK2K.js";import"./chunk-23MC5BPR.js";export{b as ManyActions,a as ObjectActions};
